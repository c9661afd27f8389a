// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/borrowed_region.h"

#include <cstring>

namespace gpuidle::cli {
namespace {

// call *%rax; mov %rax,(%rbx); movl $1,8(%rbx); then futex(&zero, WAIT_PRIVATE, 0) for ever. No
// breakpoint: its signal would end the program if this command were gone. %rbx is preserved by
// every function. The call is a real one, so that a shadow stack stays in balance.
constexpr unsigned char kCode[] = {
    0xff, 0xd0,                                // call *%rax
    0x48, 0x89, 0x03,                          // mov %rax,(%rbx)
    0xc7, 0x43, 0x08, 0x01, 0x00, 0x00, 0x00,  // movl $1,8(%rbx)
    0x48, 0x8d, 0x7b, 0x0c,                    // again: lea 12(%rbx),%rdi
    0xbe, 0x80, 0x00, 0x00, 0x00,              // mov $128,%esi
    0x31, 0xd2,                                // xor %edx,%edx
    0x4d, 0x31, 0xd2,                          // xor %r10,%r10
    0xb8, 0xca, 0x00, 0x00, 0x00,              // mov $202,%eax
    0x0f, 0x05,                                // syscall
    0xeb, 0xe9,                                // jmp again
};
constexpr std::uint64_t kMagicAt = 0x800;
constexpr char kMagic[16] = "gpuidle borrows";
constexpr std::uint64_t kJournalAt = 0x2000;
constexpr std::size_t kMaxVectorBytes = 0x20000;
constexpr std::uint64_t kDirectionFlag = 0x400;

struct JournalHead {
  std::uint64_t is_active = 0;
  std::int64_t tid = 0;
  std::uint64_t signal_mask = 0;
  std::uint64_t vector_bytes = 0;
  std::uint64_t errno_at = 0;
  std::int64_t errno_value = 0;
  user_regs_struct registers{};
};

}  // namespace

std::optional<BorrowedRegion> BorrowedRegion::find(const TargetMemory& memory,
                                                   const ProcessFacts& process) {
  for (const MappedRange& range : process.maps) {
    if (!range.is_executable || !range.path.empty() || range.end - range.begin < kCodePageBytes) {
      continue;
    }
    // A neighbour may have grown together with the page.
    for (std::uint64_t page = range.begin; page < range.end && page - range.begin < 64 * 4096;
         page += kCodePageBytes) {
      char magic[sizeof(kMagic)] = "";
      if (!memory.read(page + kMagicAt, &magic, sizeof(magic))) break;
      if (std::memcmp(magic, kMagic, sizeof(magic)) == 0) return BorrowedRegion(memory, page);
    }
  }
  return std::nullopt;
}

bool BorrowedRegion::write_code() const {
  return memory_.write(base_, kCode, sizeof(kCode)) &&
         memory_.write(base_ + kMagicAt, kMagic, sizeof(kMagic));
}

std::uint64_t BorrowedRegion::write_text(const std::string& text) const {
  if (text.size() >= kMaxTextInRegion) return 0;
  return memory_.write(base_ + kTextAt, text.c_str(), text.size() + 1) ? base_ + kTextAt : 0;
}

bool BorrowedRegion::write_journal(pid_t tid, const ThreadContext& context) const {
  if (context.vectors.size() > kMaxVectorBytes) return false;
  JournalHead head;
  head.tid = tid;
  head.signal_mask = context.signal_mask;
  head.vector_bytes = context.vectors.size();
  head.errno_at = context.errno_at;
  head.errno_value = context.errno_value;
  head.registers = context.registers;
  const std::uint64_t active = 1;  // last, when the rest is there
  return memory_.write(base_ + kJournalAt, &head, sizeof(head)) &&
         memory_.write(base_ + kJournalAt + sizeof(head), context.vectors.data(),
                       context.vectors.size()) &&
         memory_.write(base_ + kJournalAt, &active, sizeof(active));
}

bool BorrowedRegion::write_errno(const ThreadContext& context) const {
  const std::int64_t value = context.errno_value;
  const std::uint64_t head = base_ + kJournalAt;
  return memory_.write(head + offsetof(JournalHead, errno_value), &value, sizeof(value)) &&
         memory_.write(head + offsetof(JournalHead, errno_at), &context.errno_at,
                       sizeof(context.errno_at));
}

bool BorrowedRegion::clear_journal() const {
  const std::uint64_t active = 0;
  return memory_.write(base_ + kJournalAt, &active, sizeof(active));
}

pid_t BorrowedRegion::read_journal(ThreadContext* context) const {
  JournalHead head;
  if (!memory_.read(base_ + kJournalAt, &head, sizeof(head)) || head.is_active != 1) return 0;
  if (head.vector_bytes > kMaxVectorBytes || head.tid <= 0) return 0;
  context->registers = head.registers;
  context->signal_mask = head.signal_mask;
  context->errno_at = head.errno_at;
  context->errno_value = static_cast<std::int32_t>(head.errno_value);
  context->vectors.resize(head.vector_bytes);
  const bool is_read = memory_.read(base_ + kJournalAt + sizeof(head), context->vectors.data(),
                                    context->vectors.size());
  return is_read ? static_cast<pid_t>(head.tid) : 0;
}

user_regs_struct BorrowedRegion::registers_for_call(const ThreadContext& saved,
                                                    std::uint64_t function, std::uint64_t first,
                                                    std::uint64_t second) const {
  user_regs_struct registers = saved.registers;
  registers.rip = base_;
  registers.rsp = base_ + kRegionBytes - 64;  // a multiple of 16, as a call wants it
  registers.rbp = 0;
  registers.rbx = base_ + kResultAt;
  registers.rax = function;
  registers.rdi = first;
  registers.rsi = second;
  registers.orig_rax = ~0ULL;  // or the kernel would restart what the thread was in
  registers.eflags &= ~kDirectionFlag;
  return registers;
}

bool BorrowedRegion::begin_call() const {
  const std::uint64_t zero[2] = {0, 0};
  return memory_.write(base_ + kResultAt, zero, sizeof(zero));
}

bool BorrowedRegion::is_call_done(std::uint64_t* result) const {
  std::uint32_t done = 0;
  if (!memory_.read(base_ + kDoneAt, &done) || done != 1) return false;
  return memory_.read(base_ + kResultAt, result);
}

}  // namespace gpuidle::cli
