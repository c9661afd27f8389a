// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/safe_point.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpuidle::cli {
namespace {

constexpr std::size_t kScannedBytes = 16 * 1024;
constexpr std::size_t kPageBytes = 4096;
// Of a thread that waits in a call which neither malloc nor the loader makes.
constexpr std::size_t kWaitingWords = 64;
// Selector of 64-bit code.
constexpr std::uint64_t kCode64 = 0x33;

// Calls that wait and that malloc and the loader never make: below them on the stack neither can
// be, but through a signal handler. Old words on the stack of a thread that waits for ever would
// else forbid it for ever.
constexpr long kWaitingCalls[] = {
    SYS_read,   SYS_poll,       SYS_ppoll,   SYS_select,      SYS_pselect6,       SYS_nanosleep,
    SYS_pause,  SYS_recvfrom,   SYS_recvmsg, SYS_accept,      SYS_accept4,        SYS_wait4,
    SYS_waitid, SYS_epoll_wait, SYS_msgrcv,  SYS_epoll_pwait, SYS_clock_nanosleep};

bool is_in(const std::vector<CodeRange>& ranges, std::uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [address](const CodeRange& range) { return range.has(address); });
}

// True if the instruction before `address` is a call: only then is the word a return address.
bool follows_call(const TargetMemory& memory, std::uint64_t address) {
  unsigned char code[7] = {};
  if (!memory.read(address - sizeof(code), code, sizeof(code))) return true;  // be careful
  if (code[2] == 0xe8) return true;                                           // call near
  for (std::size_t length = 2; length <= sizeof(code); ++length) {            // call *operand
    const unsigned char* at = code + sizeof(code) - length;
    if (at[0] == 0xff && (at[1] & 0x38) == 0x10) return true;
  }
  return false;
}

bool is_waiting(const ThreadContext& context) {
  const auto call = static_cast<long>(context.registers.orig_rax);
  return std::find(std::begin(kWaitingCalls), std::end(kWaitingCalls), call) !=
         std::end(kWaitingCalls);
}

// The words from the stack pointer up, as far as there are any.
std::vector<std::uint64_t> read_stack(const TargetMemory& memory, std::uint64_t from) {
  std::vector<std::uint64_t> words;
  std::uint64_t at = (from + 7) / 8 * 8;
  const std::uint64_t end = at + kScannedBytes;
  while (at < end) {
    const std::uint64_t next = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    const std::size_t before = words.size();
    words.resize(before + (next - at) / 8);
    if (!memory.read(at, words.data() + before, next - at)) {
      words.resize(before);
      break;
    }
    at = next;
  }
  return words;
}

std::string scan_stack(const TargetMemory& memory, const TargetLayout& layout,
                       const ThreadContext& context) {
  const bool waits = is_waiting(context);
  const std::vector<CodeRange>& ranges = waits ? layout.loader : layout.forbidden;
  const std::vector<std::uint64_t> words = read_stack(memory, context.registers.rsp);
  if (words.empty()) return "its stack cannot be read";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (waits && words[i] == layout.signal_return) return "it waits inside a signal handler";
    if (waits && i >= kWaitingWords) continue;
    if (is_in(ranges, words[i]) && follows_call(memory, words[i])) {
      return "it is below malloc, the loader or a call that starts threads";
    }
  }
  return {};
}

}  // namespace

std::string why_not_safe(const TargetMemory& memory, const TargetLayout& layout,
                         const TracedThread& thread, const ThreadContext& context) {
  if (context.registers.cs != kCode64) return "it runs 32-bit code";
  if (is_in(layout.forbidden, context.registers.rip)) {
    return "it is inside malloc, the loader or a call that starts threads";
  }
  std::int32_t state = 0;
  if (!memory.read(layout.loader_state, &state)) return "the loader's state cannot be read";
  if (state != 0) return "a library is being loaded or unloaded";
  if (thread.is_in_restartable_sequence()) return "it is in a restartable sequence";
  return scan_stack(memory, layout, context);
}

}  // namespace gpuidle::cli
