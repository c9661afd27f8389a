// SPDX-License-Identifier: Apache-2.0
//
// What the host's calls alone prove about a device that nobody watched. From the return of a
// device-wide synchronisation to the next call that enqueues work, the device had nothing to do;
// about the rest nothing is said. Fed with calls in order of their enter; feeds the gap totals.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libgpuidle/analysis/gap_totals.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {

/// Only synchronisations of the whole device (or context) count, and only if no other thread was
/// inside an enqueueing call while they waited: a stream's or an event's says nothing about other
/// streams, and which streams were used cannot be told from the calls. Context: tool.
class ProvenIdle {
 public:
  ProvenIdle(const model::Tables& tables, const timeline::IntervalSet* unobserved,
             GapTotals* totals);

  void add(const model::ApiCall& call);

  /// The pseudo-device's result: its window runs from the first enqueueing call to the last
  /// enqueueing or synchronising one. Empty if nothing was ever enqueued.
  std::optional<DeviceIdleness> finish(const model::RecordingInfo& info);

 private:
  bool drains_device(const model::ApiCall& call) const;
  void close_gap(const model::ApiCall& next);

  std::vector<bool> is_device_wide_;  // by ApiId
  const timeline::IntervalSet* unobserved_;
  GapTotals* totals_;
  DeviceIdleness result_;
  std::optional<model::ApiCall> drained_by_;  // nothing was enqueued since this returned
  bool has_enqueued_ = false;
  std::int64_t enqueueing_until_ns_ = 0;  // latest exit of an enqueueing call
};

}  // namespace gpuidle::analysis
