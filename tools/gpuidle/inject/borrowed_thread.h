// SPDX-License-Identifier: Apache-2.0
//
// Finding a thread of another process that may be borrowed, and having it do things: system calls,
// and calls of functions on a stack of ours. Feeds injector.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libgpuidle/base/status.h"
#include "tools/gpuidle/inject/borrowed_region.h"
#include "tools/gpuidle/inject/target_layout.h"
#include "tools/gpuidle/inject/traced_thread.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {

/// Threads of a process in the order in which to try them: those that wait in calls which restart
/// unnoticed first, those that would see EINTR last, the recorder's own never.
std::vector<pid_t> threads_to_try(pid_t pid);

/// One thread, stopped at a safe point; put back and let go by give_back() or at the latest when it
/// is destroyed.
class BorrowedThread {
 public:
  BorrowedThread(const ProcessFacts& process, const TargetMemory& memory,
                 const TargetLayout& layout)
      : process_(process), memory_(memory), layout_(layout) {}
  ~BorrowedThread() { give_back(); }
  BorrowedThread(const BorrowedThread&) = delete;
  BorrowedThread& operator=(const BorrowedThread&) = delete;

  /// Errors: unavailable, permission_denied or not_found with the reason.
  base::Status borrow(std::uint32_t* probes);
  /// False: it could not be put back.
  bool give_back();

  base::Result<std::int64_t> system_call(long number, std::uint64_t a = 0, std::uint64_t b = 0,
                                         std::uint64_t c = 0, std::uint64_t d = 0,
                                         std::uint64_t e = 0, std::uint64_t f = 0);
  /// Notes the thread's errno, in context() and in the region's journal, to be put back with the
  /// rest. Before any other call().
  base::Status keep_errno(const BorrowedRegion& region);
  /// Calls a function and waits for its end; the region's journal must hold context().
  base::Result<std::uint64_t> call(const BorrowedRegion& region, std::uint64_t function,
                                   std::uint64_t first, std::uint64_t second);

  const ThreadContext& context() const { return context_; }
  pid_t tid() const { return tid_; }
  std::int64_t stopped_at_ns() const { return stopped_at_ns_; }

 private:
  base::Status try_one(pid_t tid, std::string* why_not);

  const ProcessFacts& process_;
  const TargetMemory& memory_;
  const TargetLayout& layout_;
  TracedThread thread_;
  ThreadContext context_;
  pid_t tid_ = 0;         // 0 = nothing is borrowed
  bool is_lost_ = false;  // inside a call that does not end: it cannot be put back yet
  std::int64_t stopped_at_ns_ = 0;
};

/// Writes a stopped thread's errno, if it was kept. False: its memory cannot be written.
bool put_errno_back(const TargetMemory& memory, const ThreadContext& context);

std::int64_t steady_ns();  ///< CLOCK_MONOTONIC

}  // namespace gpuidle::cli
