// SPDX-License-Identifier: Apache-2.0
//
// The iterations of a program: marked by the program or its framework, or else found by the
// repetition of what it launches. How long they take, how much they differ, and which causes of
// idleness make the slow ones slow. Fed beside analyze(); feeds both reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::analysis {

/// A step that takes longer than the median by this factor is slow.
inline constexpr double kSlowStep = 1.5;

struct SlowReason {
  Cause cause = Cause::unknown;
  std::int64_t extra_ns = 0;  ///< idle time of the slow steps beyond that of as many others
};

/// Times are from the start of a step to the start of the next.
struct StepTimes {
  bool is_marked = false;    ///< false: found by repetition
  model::StringId name = 0;  ///< of the first marker, or of the kernel that runs once per step
  std::uint32_t device = 0;  ///< whose idle time the reasons are about
  bool is_cut = false;       ///< there were more steps than are kept: these are the first ones
  std::uint64_t count = 0;
  std::int64_t median_ns = 0, p95_ns = 0, shortest_ns = 0, longest_ns = 0;
  std::uint64_t slow_count = 0;
  std::int64_t slow_extra_ns = 0;   ///< what the slow steps take beyond the median, together
  std::vector<SlowReason> reasons;  ///< most first; at most slow_extra_ns together
};

/// What of a gap the steps need.
struct StepGap {
  std::int64_t start_ns = 0;
  std::int64_t length_ns = 0;
  std::uint32_t device = 0;
  Cause cause = Cause::unknown;
};

/// Steps in order of their start, and the idle time in each by cause. Context: tool.
class StepSeries {
 public:
  /// Steps that are kept; memory is bounded by them.
  static constexpr std::size_t kMost = 8192;

  void begin_step(std::int64_t at_ns);
  /// Charges a gap to the step in which it starts; gaps must come in order of time.
  void add(const StepGap& gap);
  /// True if a gap that starts then may lie in a step whose end is not known yet.
  bool is_open_at(std::int64_t at_ns) const {
    return !steps_.empty() && steps_.size() <= kMost && at_ns >= steps_.back().start_ns;
  }
  /// Empty for fewer than 5 whole steps.
  std::optional<StepTimes> times() const;

 private:
  struct Step {
    std::int64_t start_ns = 0;
    std::array<std::int64_t, kCauseCount> idle_ns{};
  };
  std::int64_t duration_ns(std::size_t i) const {
    return steps_[i + 1].start_ns - steps_[i].start_ns;
  }
  void find_reasons(StepTimes* times) const;

  std::vector<Step> steps_;  // the last one is only the end of the one before
  std::size_t at_ = 0;       // the step of the newest gap
  bool is_cut_ = false;
};

/// Context: tool.
class StepFinder : public model::SliceVisitor, public GapSink {
 public:
  explicit StepFinder(const model::Recording& recording) : tables_(recording.tables()) {}

  void on_slice(const model::Slice& slice) override;
  void on_gap(const Gap& gap) override {
    gaps_.push_back({gap.start_ns, gap.length_ns(), gap.device, gap.cause});
  }
  /// Empty if no steps are marked and nothing repeats.
  std::optional<StepTimes> finish();

 private:
  // Kernels that are looked at to find what repeats; bounds memory.
  static constexpr std::size_t kLookedAt = 1U << 16;
  struct Launch {
    std::int64_t start_ns;
    model::KernelId kernel;
    std::uint32_t device;
  };
  void decide();
  bool is_open_at(std::int64_t at_ns) const;
  void charge_gaps(bool is_last);

  const model::Tables& tables_;
  std::vector<Launch> first_;  // until it is decided
  bool is_decided_ = false;
  std::uint32_t device_ = 0;
  model::KernelId anchor_ = 0;  // runs once per step; 0 = nothing repeats
  StepSeries repeated_;
  std::map<model::ThreadId, StepSeries> marked_;
  std::map<model::ThreadId, model::StringId> first_marks_;
  std::vector<StepGap> gaps_;  // not yet charged to a step
};

}  // namespace gpuidle::analysis
