// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/launch_runs.h"

#include <algorithm>

namespace gpuidle::analysis {
// Below a fifth of its time in gaps, a run is not bound by its launches.
void LaunchRuns::close_block(bool goes_on) {
  const bool is_long = operations_ >= kLeastOperations || is_bound_so_far_;
  const bool is_bound = is_long && operations_ > 0 &&
                        gaps_ns_ * 5 >= std::max<std::int64_t>(1, last_start_ns_ - block_start_ns_);
  if (is_bound) found_.insert(found_.end(), pending_.begin(), pending_.end());
  pending_.clear();
  operations_ = 0;
  gaps_ns_ = 0;
  block_start_ns_ = last_start_ns_;
  is_bound_so_far_ = goes_on && is_bound;
}

const std::vector<std::uint64_t>& LaunchRuns::add(std::int64_t start_ns, const model::ApiCall* call,
                                                  const Ended* ended) {
  found_.clear();
  const bool prompt = is_prompt(start_ns, call);
  const bool breaks =
      ended != nullptr && (ended->is_after_wait || ended->length_ns >= kLongestGap_ns);
  if (!prompt || breaks || call->thread != thread_) {
    close_block(false);
    thread_ = prompt ? call->thread : 0;
    if (!prompt) return found_;
    // This operation is the first of the next run; the gap before it is not part of that.
    block_start_ns_ = last_start_ns_ = start_ns;
    operations_ = 1;
    return found_;
  }
  last_start_ns_ = start_ns;
  ++operations_;
  if (ended != nullptr) {
    gaps_ns_ += ended->length_ns;
    pending_.push_back(ended->gap);
  }
  if (operations_ >= kBlock) close_block(true);
  return found_;
}

const std::vector<std::uint64_t>& LaunchRuns::finish() {
  found_.clear();
  close_block(false);
  return found_;
}

}  // namespace gpuidle::analysis
