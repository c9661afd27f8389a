// SPDX-License-Identifier: Apache-2.0
//
// The memory that the injector maps into a process: a few instructions that call a function and
// then sleep, a stack for the call, and a journal of what the borrowed thread was doing, from which
// it can be put back should this command be killed meanwhile. Feeds the injector and `repair`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "libgpuidle/base/status.h"
#include "tools/gpuidle/inject/target_memory.h"
#include "tools/gpuidle/inject/traced_thread.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {

/// Offsets in the region. The first page is code, the rest data and, from its end down, a stack.
inline constexpr std::uint64_t kRegionBytes = 256 * 1024;
inline constexpr std::uint64_t kCodePageBytes = 4096;
inline constexpr std::uint64_t kResultAt = 0x1000;  ///< of the call, 8 bytes
inline constexpr std::uint64_t kDoneAt = 0x1008;    ///< 4 bytes, 1 = the call has returned
inline constexpr std::uint64_t kTextAt = 0x1100;    ///< for paths and names
inline constexpr std::size_t kMaxTextInRegion = 0xf00;

class BorrowedRegion {
 public:
  BorrowedRegion(const TargetMemory& memory, std::uint64_t base) : memory_(memory), base_(base) {}

  /// The region that an earlier, killed command left in the process.
  static std::optional<BorrowedRegion> find(const TargetMemory& memory,
                                            const ProcessFacts& process);

  std::uint64_t base() const { return base_; }
  /// Writes the code; the first page must be writable still.
  bool write_code() const;
  /// Writes text for the next call to `kTextAt`; its address, 0 = it did not fit.
  std::uint64_t write_text(const std::string& text) const;

  /// Notes that `tid` is borrowed and what it was doing. False: it could not be written.
  bool write_journal(pid_t tid, const ThreadContext& context) const;
  /// Adds errno to what is noted of the borrowed thread.
  bool write_errno(const ThreadContext& context) const;
  bool clear_journal() const;
  /// The thread that is borrowed at the moment, 0 = none.
  pid_t read_journal(ThreadContext* context) const;

  /// Registers that make a thread call `function` with two arguments and then sleep.
  user_regs_struct registers_for_call(const ThreadContext& saved, std::uint64_t function,
                                      std::uint64_t first, std::uint64_t second) const;
  bool begin_call() const;  ///< forgets that an earlier call has returned
  bool is_call_done(std::uint64_t* result) const;

 private:
  const TargetMemory& memory_;
  std::uint64_t base_;
};

}  // namespace gpuidle::cli
