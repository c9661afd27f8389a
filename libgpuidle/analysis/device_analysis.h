// SPDX-License-Identifier: Apache-2.0
//
// One device's part of the analysis: joins operations to their calls, sweeps the time, opens gaps
// and names what opened them. Fed by analyze() with operations in order of their start; feeds the
// gap totals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "libgpuidle/analysis/device_sweep.h"
#include "libgpuidle/analysis/exposed_totals.h"
#include "libgpuidle/analysis/gap_totals.h"
#include "libgpuidle/analysis/host_side.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/analysis/launch_runs.h"
#include "libgpuidle/analysis/open_gaps.h"

namespace gpuidle::analysis {

/// A blocking call may return this long after the next operation began and still have opened the
/// gap: the clocks of host and device agree to a few microseconds only.
inline constexpr std::int64_t kClockSlack_ns = 5'000;

/// What the analyses of all devices share. All of it must outlive them.
struct Shared {
  const timeline::IntervalSet* unobserved;
  const timeline::IntervalSet* doubtful;  ///< see DeviceSweep
  HostSide* host;
  GapTotals* totals;
  ExposedTotals* exposed;
};

/// Context: tool.
class DeviceAnalysis {
 public:
  DeviceAnalysis(std::uint32_t device, const Shared& shared)
      : shared_(shared),
        sweep_(shared.unobserved, shared.doubtful),
        peer_(shared.host->add_peer()) {
    result_.device = device;
  }

  /// Every call entered, and every marker and overhead begun, before `op` starts must have been fed
  /// to the host's side. False if `op` was refused: it starts before the one that came last.
  bool add(const model::DeviceActivity& op, BusyKind kind);

  /// Closes what is open and returns the device's result; head and tail where their ends are known.
  DeviceIdleness finish(const model::RecordingInfo& info);

 private:
  /// Opens the gap of `piece`, which `op` ended, if `call` enqueued it and is known.
  void open_gap(const IdlePiece& piece, const model::DeviceActivity& op,
                const model::ApiCall* call);
  void name_opener(Gap* gap, const model::ApiCall* closing) const;
  /// Returns the time inside the gap that the profiler's own work covers, if that was looked for.
  std::int64_t look_around(const model::DeviceActivity& op, const model::ApiCall& closing,
                           OpenGap* open) const;
  void look_at_wait(const Gap& gap, model::ThreadId thread, Surroundings* around) const;
  void improve_closing(const model::DeviceActivity& op, const model::ApiCall& call);
  void add_to_run(const model::DeviceActivity& op, const model::ApiCall* call, bool has_ended_gap);
  void count_call(const model::DeviceActivity& op, const model::ApiCall& call);
  void close_gap();
  void count_episode(const Gap& gap);
  void expose();

  Shared shared_;
  DeviceSweep sweep_;
  std::size_t peer_;
  OpenGaps open_;
  LaunchRuns runs_;
  DeviceIdleness result_;
  EdgeOperation last_;  // ended last of all so far
  std::int64_t last_end_ns_ = 0;
  std::uint32_t newest_correlation_ = 0;  // of the call that closed the newest gap, 0 = none
  bool is_newest_opened_by_work_ = false;
  std::uint32_t long_launch_ = 0;  // correlation of the last long launch call that was counted
  std::array<std::int64_t, kCauseCount> hidden_ns_{};  // computation that hides gaps of a cause
  std::array<std::int64_t, kCauseCount> episode_end_ns_{};
};

}  // namespace gpuidle::analysis
