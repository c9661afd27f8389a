// SPDX-License-Identifier: Apache-2.0
//
// Finds runs of operations that each started as soon as their call had put them into an empty
// queue: there the host sets the pace, and the many small gaps are one thing. Fed by the analysis
// of a device in order of start; tells it which gaps belong to such a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libgpuidle/model/records.h"

namespace gpuidle::analysis {

/// Context: tool.
class LaunchRuns {
 public:
  /// A run is judged in blocks of this many operations, so that none has to be remembered whole.
  static constexpr std::size_t kBlock = 64;
  static constexpr std::size_t kLeastOperations = 8;
  /// An operation that starts this soon after its call returned found the queue empty.
  static constexpr std::int64_t kPrompt_ns = 20'000;
  static constexpr std::int64_t kLongestGap_ns = 1'000'000;

  /// The gap that an operation ended, if it ended one.
  struct Ended {
    std::uint64_t gap = 0;  ///< its number, for the caller
    std::int64_t length_ns = 0;
    bool is_after_wait = false;  ///< opened by a blocking call
  };

  /// True if `call` (nullptr: not known) put an operation that starts then into an empty queue.
  static bool is_prompt(std::int64_t start_ns, const model::ApiCall* call) {
    return call != nullptr && start_ns - call->exit_ns <= kPrompt_ns && is_small(call->role);
  }
  /// True if the last operation was not prompt: another such one changes nothing.
  bool is_between_runs() const { return operations_ == 0 && !is_bound_so_far_; }

  /// `call` is nullptr if it is not known; `ended` is nullptr if the device was busy until then.
  /// The returned numbers of gaps are part of a run; valid until the next call.
  const std::vector<std::uint64_t>& add(std::int64_t start_ns, const model::ApiCall* call,
                                        const Ended* ended);
  /// The last run ends here.
  const std::vector<std::uint64_t>& finish();

 private:
  // Graphs have a cause of their own: one launch of theirs is many operations already.
  static constexpr bool is_small(model::ApiRole role) {
    return role == model::ApiRole::launch || role == model::ApiRole::copy ||
           role == model::ApiRole::set;
  }
  void close_block(bool goes_on);

  model::ThreadId thread_ = 0;
  std::int64_t block_start_ns_ = 0;
  std::int64_t last_start_ns_ = 0;
  std::size_t operations_ = 0;
  std::int64_t gaps_ns_ = 0;
  bool is_bound_so_far_ = false;  // the block before this one was part of the run
  std::vector<std::uint64_t> pending_, found_;
};

}  // namespace gpuidle::analysis
