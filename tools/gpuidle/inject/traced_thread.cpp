// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/traced_thread.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <csignal>

namespace gpuidle::cli {
namespace {

// AMX makes it 11 KiB; room for what comes.
constexpr std::size_t kMaxVectorBytes = 64 * 1024;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void wait_a_moment(std::int64_t waited_ns) {
  constexpr std::int64_t kSpin_ns = 200'000;  // what most stops and calls take
  if (waited_ns < kSpin_ns) return;
  const timespec time{0, 20'000};
  nanosleep(&time, nullptr);
}

StopResult TracedThread::wait_for_stop(std::int64_t timeout_ns) {
  const std::int64_t begin_ns = now_ns();
  for (;;) {
    int status = 0;
    const pid_t waited = waitpid(tid_, &status, __WALL | WNOHANG);
    if (waited < 0 && errno != EINTR) return StopResult::gone;
    if (waited == tid_) {
      if (!WIFSTOPPED(status)) return StopResult::gone;
      is_stopped_ = true;
      if (status >> 16 == PTRACE_EVENT_STOP) {
        return WSTOPSIG(status) == SIGTRAP ? StopResult::stopped : StopResult::group_stopped;
      }
      // A signal came first: it is delivered, and our stop follows.
      if (!resume(WSTOPSIG(status))) return StopResult::gone;
    }
    const std::int64_t waited_ns = now_ns() - begin_ns;
    if (waited_ns > timeout_ns) return StopResult::timed_out;
    wait_a_moment(waited_ns);
  }
}

StopResult TracedThread::stop(pid_t tid, std::int64_t timeout_ns, int* error) {
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
    *error = errno;
    return errno == ESRCH ? StopResult::gone : StopResult::not_permitted;
  }
  tid_ = tid;
  if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return StopResult::gone;
  return wait_for_stop(timeout_ns);
}

bool TracedThread::stop_again(std::int64_t timeout_ns) {
  if (ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0) return false;
  return wait_for_stop(timeout_ns) == StopResult::stopped;
}

bool TracedThread::resume(int signal) {
  is_stopped_ = false;
  return ptrace(PTRACE_CONT, tid_, nullptr, static_cast<long>(signal)) == 0;
}

void TracedThread::release() {
  if (tid_ == 0) return;
  // A thread that runs cannot be let go; it is when this process ends.
  if (is_stopped_) ptrace(PTRACE_DETACH, tid_, nullptr, nullptr);
  tid_ = 0;
  is_stopped_ = false;
}

bool TracedThread::save(ThreadContext* context) const {
  iovec part{&context->registers, sizeof(context->registers)};
  if (ptrace(PTRACE_GETREGSET, tid_, NT_PRSTATUS, &part) != 0) return false;
  context->vectors.resize(kMaxVectorBytes);
  part = {context->vectors.data(), context->vectors.size()};
  if (ptrace(PTRACE_GETREGSET, tid_, NT_X86_XSTATE, &part) != 0) return false;
  context->vectors.resize(part.iov_len);  // a shorter one could not be put back
  return ptrace(PTRACE_GETSIGMASK, tid_, sizeof(context->signal_mask), &context->signal_mask) == 0;
}

bool TracedThread::restore(const ThreadContext& context) const {
  iovec part{const_cast<unsigned char*>(context.vectors.data()), context.vectors.size()};
  const bool has_vectors = ptrace(PTRACE_SETREGSET, tid_, NT_X86_XSTATE, &part) == 0;
  const bool has_registers = set_registers(context.registers);
  std::uint64_t mask = context.signal_mask;
  const bool has_mask = ptrace(PTRACE_SETSIGMASK, tid_, sizeof(mask), &mask) == 0;
  return has_vectors && has_registers && has_mask;
}

bool TracedThread::set_registers(const user_regs_struct& registers) const {
  iovec part{const_cast<user_regs_struct*>(&registers), sizeof(registers)};
  return ptrace(PTRACE_SETREGSET, tid_, NT_PRSTATUS, &part) == 0;
}

bool TracedThread::block_signals() const {
  std::uint64_t mask = ~std::uint64_t{0};
  for (const int open : {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS}) {
    mask &= ~(std::uint64_t{1} << (open - 1));
  }
  return ptrace(PTRACE_SETSIGMASK, tid_, sizeof(mask), &mask) == 0;
}

bool TracedThread::is_in_restartable_sequence() const {
#ifdef PTRACE_GET_RSEQ_CONFIGURATION
  __ptrace_rseq_configuration where{};
  if (ptrace(static_cast<__ptrace_request>(PTRACE_GET_RSEQ_CONFIGURATION), tid_, sizeof(where),
             &where) <= 0 ||
      where.rseq_abi_pointer == 0) {
    return false;
  }
  errno = 0;
  const long section = ptrace(PTRACE_PEEKDATA, tid_, where.rseq_abi_pointer + 8, nullptr);
  return errno == 0 && section != 0;
#else
  return false;
#endif
}

bool TracedThread::system_call(const ThreadContext& saved, std::uint64_t instruction, long number,
                               const std::uint64_t (&arguments)[6], std::int64_t* result) const {
  user_regs_struct registers = saved.registers;
  registers.rip = instruction;
  registers.rax = static_cast<std::uint64_t>(number);
  registers.orig_rax = ~0ULL;  // or the kernel would restart what the thread was in
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.r10 = arguments[3];
  registers.r8 = arguments[4];
  registers.r9 = arguments[5];
  if (!set_registers(registers)) return false;
  if (ptrace(PTRACE_SINGLESTEP, tid_, nullptr, nullptr) != 0) return false;
  int status = 0;
  while (waitpid(tid_, &status, __WALL) < 0) {
    if (errno != EINTR) return false;
  }
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP || status >> 16 != 0) return false;
  iovec part{&registers, sizeof(registers)};
  if (ptrace(PTRACE_GETREGSET, tid_, NT_PRSTATUS, &part) != 0) return false;
  *result = static_cast<std::int64_t>(registers.rax);
  return true;
}

int TracedThread::pending_stop() {
  int status = 0;
  if (waitpid(tid_, &status, __WALL | WNOHANG) != tid_) return 0;
  is_stopped_ = WIFSTOPPED(status);
  return is_stopped_ ? WSTOPSIG(status) : SIGKILL;
}

}  // namespace gpuidle::cli
