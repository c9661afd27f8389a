// SPDX-License-Identifier: Apache-2.0
//
// One stopped thread of another process: its registers, whole vector state and signal mask, and
// single system calls in its name. Feeds the injector. Uses no breakpoint and writes no code of the
// program's.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <vector>

namespace gpuidle::cli {

/// All that has to be put back for the thread not to notice.
struct ThreadContext {
  user_regs_struct registers{};
  std::vector<unsigned char> vectors;  ///< NT_X86_XSTATE, as long as the kernel says it is
  std::uint64_t signal_mask = 0;
  /// errno, which every called function may change between a failed call of the program and its
  /// look at the reason. Written back by whoever wrote to the process's memory, not by restore().
  std::uint64_t errno_at = 0;  ///< its address, 0 = not known yet: no function has been called
  std::int32_t errno_value = 0;
};

enum class StopResult { stopped, group_stopped, gone, not_permitted, timed_out };

/// Waits a moment for another thread, shortest at first: a sleep of this process is the stop of
/// another one. `waited_ns` is how long this has gone on.
void wait_a_moment(std::int64_t waited_ns);

/// Context: tool, a process of its own: a thread that does not stop in time stays seized until this
/// process ends.
class TracedThread {
 public:
  TracedThread() = default;
  ~TracedThread() { release(); }
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;

  /// Stops the thread. `error` receives errno of a refusal.
  StopResult stop(pid_t tid, std::int64_t timeout_ns, int* error);
  /// Stops it again after resume().
  bool stop_again(std::int64_t timeout_ns);
  /// Lets it run on, still traced. `signal`: one that it was about to get, 0 = none.
  bool resume(int signal = 0);
  /// Lets it go. Nothing if there is none.
  void release();

  bool save(ThreadContext* context) const;
  bool restore(const ThreadContext& context) const;
  bool set_registers(const user_regs_struct& registers) const;
  /// Leaves only signals open that tell a fault of what we do.
  bool block_signals() const;
  /// True: inside a critical section that a stop would restart (rseq).
  bool is_in_restartable_sequence() const;

  /// Runs one system call at `instruction` (a `syscall` of the program's). False: it was answered
  /// by a signal (seccomp). Changes registers only, which restore() puts back.
  bool system_call(const ThreadContext& saved, std::uint64_t instruction, long number,
                   const std::uint64_t (&arguments)[6], std::int64_t* result) const;

  /// Without waiting: a signal that stopped it after resume(), 0 = it runs.
  int pending_stop();
  pid_t tid() const { return tid_; }

 private:
  StopResult wait_for_stop(std::int64_t timeout_ns);

  pid_t tid_ = 0;
  bool is_stopped_ = false;
};

}  // namespace gpuidle::cli
