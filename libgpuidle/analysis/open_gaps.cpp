// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/open_gaps.h"

#include <algorithm>

namespace gpuidle::analysis {
namespace {

// `enter_ns` and `exit_ns` of the earliest call that enqueued work which started after the gap.
IdleSplit split_at(const Gap& gap, std::int64_t enter_ns, std::int64_t exit_ns) {
  const std::int64_t queued_ns = std::clamp(enter_ns, gap.start_ns, gap.end_ns);
  const std::int64_t done_ns = std::clamp(exit_ns, queued_ns, gap.end_ns);
  IdleSplit split;
  split.host_ns = queued_ns - gap.start_ns;
  split.call_ns = done_ns - queued_ns;
  split.device_ns = gap.end_ns - done_ns;
  return split;
}

}  // namespace

OpenGap& OpenGaps::push(const timeline::Interval& idle, bool is_split_known) {
  if (ring_.size() < kWindow) ring_.emplace_back();
  Entry& entry = at(next_);
  // Field by field: clearing the whole row, call sites included, costs a tenth of the analysis.
  Gap& gap = entry.open.gap;
  gap.opener = Opener::unknown;
  gap.split = {};
  gap.closing.reset();
  gap.blocking.reset();
  gap.saving_bound_ns.reset();
  gap.inside = 0;
  gap.workers = WorkerState::unknown;
  gap.start_ns = idle.start_ns;
  gap.end_ns = idle.end_ns;
  entry.open.clues.is_in_run = false;
  entry.open.clues.is_examined = false;
  entry.idle_before_ns = idle_ns_;
  entry.is_split_known = is_split_known;
  ++next_;
  idle_ns_ += idle.length_ns();
  return entry.open;
}

void OpenGaps::enqueued_by(std::int64_t enter_ns, std::int64_t exit_ns) {
  std::uint64_t first_gap = std::max(uncovered_from_, first_);
  // Of calls that were entered together the one that returned last decides, so that the order of
  // records with equal times does not show.
  while (!queued_.empty() &&
         (queued_.back().enter_ns > enter_ns ||
          (queued_.back().enter_ns == enter_ns && queued_.back().exit_ns < exit_ns))) {
    first_gap = queued_.back().first_gap;
    queued_.pop_back();
  }
  if (first_gap < next_) queued_.push_back({enter_ns, exit_ns, first_gap});
  uncovered_from_ = next_;
}

std::int64_t OpenGaps::idle_since(std::int64_t from_ns) const {
  if (is_empty()) return 0;
  // The oldest gap that ends after from_ns. It is mostly among the last few, so the search widens
  // from the newest.
  const std::uint64_t newest = next_ - 1;
  std::uint64_t low = newest, high = newest;
  for (std::uint64_t step = 1; low > first_ && at(low - 1).open.gap.end_ns > from_ns; step *= 2) {
    high = low - 1;
    low = high - std::min(step, high - first_);
  }
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (at(middle).open.gap.end_ns <= from_ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const std::int64_t cut_ns =
      low < newest ? std::max<std::int64_t>(0, from_ns - at(low).open.gap.start_ns) : 0;
  return at(newest).idle_before_ns - at(low).idle_before_ns - cut_ns;
}

OpenGap& OpenGaps::pop() {
  Entry& entry = at(first_);
  Gap& gap = entry.open.gap;
  while (queued_.size() > 1 && queued_[1].first_gap <= first_) queued_.pop_front();
  const bool is_covered = !queued_.empty() && queued_.front().first_gap <= first_;
  if (entry.is_split_known && is_covered) {
    gap.split = split_at(gap, queued_.front().enter_ns, queued_.front().exit_ns);
  } else {
    gap.split.unknown_ns = gap.length_ns();
  }
  ++first_;
  return entry.open;
}

}  // namespace gpuidle::analysis
