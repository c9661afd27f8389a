// SPDX-License-Identifier: Apache-2.0
//
// One device's part of the analysis: joins operations to their calls, sweeps the time, opens gaps
// and names what opened them. Fed by analyze() with operations in order of their start; feeds the
// gap totals.
#pragma once

#include <cstdint>

#include "libgpuidle/analysis/call_table.h"
#include "libgpuidle/analysis/device_sweep.h"
#include "libgpuidle/analysis/gap_totals.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/analysis/open_gaps.h"

namespace gpuidle::analysis {

/// A blocking call may return this long after the next operation began and still have opened the
/// gap: the clocks of host and device agree to a few microseconds only.
inline constexpr std::int64_t kClockSlack_ns = 5'000;

/// Context: tool. `unobserved`, `calls` and `totals` must outlive this object.
class DeviceAnalysis {
 public:
  DeviceAnalysis(std::uint32_t device, const timeline::IntervalSet* unobserved,
                 const CallTable* calls, GapTotals* totals)
      : sweep_(unobserved), calls_(calls), totals_(totals) {
    result_.device = device;
  }

  /// Every call entered before `op` starts must be in the call table. False if `op` was refused:
  /// it starts before the one that came last.
  bool add(const model::DeviceActivity& op, BusyKind kind);

  /// Closes what is open and returns the device's result; head and tail where their ends are known.
  DeviceIdleness finish(const model::RecordingInfo& info);

 private:
  void open_gap(const IdlePiece& piece, const model::ApiCall* closing);
  void name_opener(Gap* gap, const model::ApiCall* closing) const;
  void improve_closing(std::int64_t start_ns, const model::ApiCall& call);

  DeviceSweep sweep_;
  const CallTable* calls_;
  GapTotals* totals_;
  OpenGaps open_;
  DeviceIdleness result_;
  std::uint32_t newest_correlation_ = 0;  // of the call that closed the newest gap, 0 = none
  bool is_newest_opened_by_work_ = false;
};

}  // namespace gpuidle::analysis
