// SPDX-License-Identifier: Apache-2.0
//
// Two recordings of the same program, before and after a change: what changed in the ledger and per
// cause, whether that is more than the steps' own spread, and whether what was predicted came true.
// Pure; fed by `gpuidle diff`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "libgpuidle/analysis/findings.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::analysis {

/// Collects how long the program's marked steps took. Give it to analyze() as Options::also.
/// Context: tool.
class StepMeter : public model::SliceVisitor {
 public:
  static constexpr std::size_t kMaxSteps = 1U << 20;

  void on_slice(const model::Slice& slice) override;

  /// In order of time: the lengths of marked ranges, else the distances of marked moments.
  const std::vector<std::int64_t>& durations_ns() const { return durations_ns_; }

 private:
  std::optional<std::int64_t> last_moment_ns_;
  std::vector<std::int64_t> durations_ns_;
};

/// The parts of wall time that are compared; they add up to it.
enum class LedgerPart : std::uint8_t {
  compute,
  communication,
  copy,
  nothing_queued,
  being_queued,
  not_started,
  split_not_known,
  not_observed,
};
inline constexpr std::size_t kLedgerPartCount = 8;

/// One side of a comparison, summed over devices.
struct RunFigures {
  std::int64_t wall_ns = 0;
  std::array<std::int64_t, kLedgerPartCount> parts_ns{};
  std::array<std::int64_t, kCauseCount> idle_by_cause_ns{};
  std::array<std::optional<std::int64_t>, kCauseCount> predicted_ns{};  ///< told findings only
  std::uint64_t kernel_count = 0;
  std::size_t device_count = 0;
  std::vector<std::int64_t> steps_ns;

  std::int64_t idle_ns() const;
};
RunFigures figures_of(const Idleness& found, const Findings& findings, const StepMeter& steps);

/// Mean and standard deviation (n - 1) of step times; requires a step.
struct StepSpread {
  double mean_ns = 0;
  double deviation_ns = 0;
};
StepSpread spread_of(const std::vector<std::int64_t>& steps_ns);

/// How likely two sets of step times differ in their mean by this much or more if the change had no
/// effect: a two-sided permutation test, exact for small sets, else of kPermutations fixed random
/// ones. Empty if a side has fewer than kFewestSteps.
inline constexpr std::size_t kFewestSteps = 3;
inline constexpr std::size_t kPermutations = 20'000;
std::optional<double> chance_of(const std::vector<std::int64_t>& before,
                                const std::vector<std::int64_t>& after);
/// Below this a difference is called significant.
inline constexpr double kSignificant = 0.05;

/// What became of a predicted saving.
enum class Outcome : std::uint8_t {
  came_true,     ///< the cause's idle time fell by half of the prediction or more
  in_part,       ///< by a tenth or more
  did_not_come,  ///< by less
  exceeded,      ///< by more than was said to be possible
};

struct CauseChange {
  Cause cause = Cause::unknown;
  double before_ns = 0, after_ns = 0;  ///< in the unit of the comparison
  std::optional<double> predicted_ns;  ///< at most, by the findings before
  std::optional<Outcome> outcome;
};

/// All times are per step if both sides have kFewestSteps steps (the share of wall time x the mean
/// step), else of the whole recordings.
struct RunComparison {
  bool is_per_step = false;
  double wall_before_ns = 0, wall_after_ns = 0;
  std::array<double, kLedgerPartCount> before_ns{}, after_ns{};
  std::vector<CauseChange> causes;  ///< largest change first
  std::optional<double> chance;     ///< of the step times; empty: no steps
};
RunComparison compare_runs(const RunFigures& before, const RunFigures& after);

}  // namespace gpuidle::analysis
