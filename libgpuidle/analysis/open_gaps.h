// SPDX-License-Identifier: Apache-2.0
//
// Splits the idle gaps of one device exactly into "nothing queued", "inside the enqueueing call"
// and "queued, not started". An operation that starts after a gap may have been enqueued before the
// one that ended it (another stream), so gaps stay open while later operations can still change
// their split. Fed in order of start; feeds the gap totals.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "libgpuidle/analysis/clues.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {

/// A gap and what is known of its surroundings.
struct OpenGap {
  Gap gap;
  Clues clues;
};

/// Context: tool.
class OpenGaps {
 public:
  /// Gaps that wait for later operations; an operation that is overtaken by more gaps than this no
  /// longer changes the split of those before.
  static constexpr std::uint64_t kWindow = 1U << 16;

  bool is_empty() const { return first_ == next_; }
  bool is_full() const { return next_ - first_ == kWindow; }

  /// Appends a gap that starts no earlier than the one before ended, and returns it to be filled
  /// in; its split is left alone. `is_split_known` false: nobody can tell. Requires !is_full().
  OpenGap& push(const timeline::Interval& idle, bool is_split_known);

  /// The newest gap, nullptr if there is none; for a better closing call of the same start.
  OpenGap* newest() { return is_empty() ? nullptr : &at(next_ - 1).open; }
  /// Its number; requires !is_empty().
  std::uint64_t newest_number() const { return next_ - 1; }
  /// Gap `number` is part of a run of launches; without effect if it is closed already.
  void mark_in_run(std::uint64_t number) {
    if (number >= first_ && number < next_) at(number).open.clues.is_in_run = true;
  }
  void set_newest_split_known() { at(next_ - 1).is_split_known = true; }

  /// An operation that starts at or after the end of every gap so far was enqueued by this call.
  void enqueued_by(std::int64_t enter_ns, std::int64_t exit_ns);

  /// Idle time between `from_ns` and the start of the newest gap, in ns; gaps that have left the
  /// window count as busy.
  std::int64_t idle_since(std::int64_t from_ns) const;

  /// The same up to the end of the newest gap: up to now, if the device has been busy since.
  std::int64_t idle_until_now(std::int64_t from_ns) const {
    if (is_empty()) return 0;
    const Gap& gap = at(next_ - 1).open.gap;
    return idle_since(from_ns) +
           (gap.end_ns > from_ns ? gap.end_ns - (gap.start_ns > from_ns ? gap.start_ns : from_ns)
                                 : 0);
  }

  /// Splits and removes the oldest gap; the reference is valid until the next push(). Requires
  /// !is_empty().
  OpenGap& pop();

 private:
  struct Entry {
    OpenGap open;
    std::int64_t idle_before_ns = 0;  // idle time of all gaps before this one
    bool is_split_known = false;
  };
  // The earliest call that enqueued an operation after gap `first_gap` and those that follow it, up
  // to the next QueuedFrom. The earliest call over ever fewer operations can only get later, so the
  // list ascends in enter, and a call that beats the back of the list replaces it: constant time
  // per operation on average.
  struct QueuedFrom {
    std::int64_t enter_ns;
    std::int64_t exit_ns;
    std::uint64_t first_gap;
  };

  Entry& at(std::uint64_t index) { return ring_[index % kWindow]; }
  const Entry& at(std::uint64_t index) const { return ring_[index % kWindow]; }

  std::vector<Entry> ring_;  // grows to kWindow, then is reused
  std::uint64_t first_ = 0;  // oldest open gap
  std::uint64_t next_ = 0;   // one past the newest
  std::int64_t idle_ns_ = 0;
  std::deque<QueuedFrom> queued_;
  std::uint64_t uncovered_from_ = 0;  // gaps from here on have no later call yet
};

}  // namespace gpuidle::analysis
