// SPDX-License-Identifier: Apache-2.0
//
// When was ONE device busy and when idle, worked out while the program still runs. Fed by the
// recorder's drain thread with operations in the order in which they are delivered (late, per
// buffer, streams mixed); feeds the trace with gaps. Memory is bounded, whatever the run's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "libgpuidle/model/records.h"

namespace gpuidle::timeline {

/// Context: drain | tool; one thread at a time. Throws nothing but std::bad_alloc.
class DeviceTimeline {
 public:
  /// Operations that may wait for a watermark; past that the oldest half is closed early, and what
  /// then arrives before them counts as late. At 24 bytes each this bounds the memory.
  static constexpr std::size_t kMaxPending = 1U << 17;

  explicit DeviceTimeline(std::uint32_t device = 0) : device_(device) {}

  /// Takes [start_ns, end_ns), in any order. An operation that starts before the last watermark is
  /// still merged where no closed gap contradicts it; otherwise it counts as late. A zero-length
  /// operation is work that ends a gap. `end_ns < start_ns` must have been sorted out before.
  void add(std::int64_t start_ns, std::int64_t end_ns, std::uint32_t correlation);

  /// Promises that (nearly) everything that starts before `watermark_ns` has been added: closes it
  /// and appends the idle gaps it ended, in ascending order, to `closed`. A watermark never moves
  /// back. Gaps carry the correlation of the operation that ended them, of several that start
  /// together the lowest known.
  void advance(std::int64_t watermark_ns, std::vector<model::RecordedGap>* closed);

  /// Closes all that was added.
  void finish(std::vector<model::RecordedGap>* closed);

  /// Totals of what has been closed. busy_ns() + idle_ns() == last_ns() - first_ns() always.
  std::int64_t busy_ns() const { return last_ns_ - first_ns_ - idle_ns_; }
  std::int64_t idle_ns() const { return idle_ns_; }
  std::int64_t first_ns() const { return first_ns_; }  ///< start of the first operation, 0 = none
  std::int64_t last_ns() const { return last_ns_; }    ///< latest end, 0 = none
  std::uint64_t gap_count() const { return gap_count_; }
  std::uint64_t closed_count() const { return closed_count_; }
  std::size_t pending_count() const { return pending_.size(); }

  /// Operations that reach back behind the current busy run, where gaps were closed before they
  /// arrived: the caller reports them as LossReason::late_activity. Those gaps stay as reported.
  std::uint64_t late_count() const { return late_count_; }

 private:
  struct Pending {
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::uint32_t correlation;
  };

  void close_before(std::int64_t watermark_ns, std::vector<model::RecordedGap>* closed);
  void close(const Pending& op, std::vector<model::RecordedGap>* closed);

  std::uint32_t device_;
  std::vector<Pending> pending_;           // in order of arrival
  std::vector<model::RecordedGap> early_;  // gaps closed by add() for want of room
  std::int64_t watermark_ns_ = std::numeric_limits<std::int64_t>::min();
  bool has_closed_ = false;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::int64_t run_start_ns_ = 0;  // the busy run that ends at last_ns_
  std::int64_t idle_ns_ = 0;
  std::uint64_t gap_count_ = 0;
  std::uint64_t closed_count_ = 0;
  std::uint64_t late_count_ = 0;
};

}  // namespace gpuidle::timeline
