// SPDX-License-Identifier: Apache-2.0
//
// What the report advises: the causes whose gaps, exposed transfers or surroundings cost enough to
// be told, with what they cost, what at most is saved, and how well that is founded. Made from the
// result of analyze() and facts about the run; text and JSON tell the same structs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "libgpuidle/analysis/device_memory.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::analysis {

/// One place in the program that a finding leads to.
struct FindingPlace {
  model::ApiId api = 0;      ///< 0 = call not known
  model::StackId stack = 0;  ///< 0 = no stack taken
  std::uint64_t count = 0;   ///< gaps or transfers
  std::int64_t total_ns = 0;
  std::int64_t removable_ns = 0;
  std::optional<Gap> longest;  ///< empty for transfers
};

/// What copies or communication behind a finding were like.
struct TransferFacts {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::int64_t total_ns = 0;    ///< sum of their times on the device
  std::int64_t exposed_ns = 0;  ///< of that, beside no computing kernel
  std::int64_t call_ns = 0;     ///< the host's time inside their calls
  bool is_source_known = true;  ///< false: pinned or pageable is not recorded
};

struct Finding {
  Cause cause = Cause::unknown;
  Grade grade = Grade::c;
  bool is_high = false;             ///< at or above the cause's high band
  bool is_likely = false;           ///< grade C, or too little was recorded to be sure
  std::uint64_t count = 0;          ///< gaps; 0 for findings on the job
  std::uint64_t episode_count = 0;  ///< runs of these gaps no more than 2 s apart
  std::int64_t total_ns = 0;        ///< what the cause costs, of window_ns
  std::int64_t window_ns = 0;  ///< wall time of the used devices; of the process for job findings
  std::optional<std::int64_t> saving_ns;  ///< at most this goes away; empty: no bound is known
  IdleSplit split;                        ///< of the gaps in total_ns
  /// What child processes did during these gaps, as far as they were looked at: gaps by the state
  /// that most of their samples show.
  std::array<std::int64_t, kWorkerStateCount> worker_ns{};
  std::optional<TransferFacts> transfers;
  std::vector<FindingPlace> places;    ///< most time first
  std::vector<std::uint32_t> devices;  ///< on job and memory: the devices they speak of
};

/// When to speak. Shares are those of causes.def.
struct Thresholds {
  /// A cause that costs less may still be told, but as likely: a few gaps prove no habit.
  std::int64_t sure_total_ns = 50'000'000;
  std::uint64_t sure_kernels = kEnoughKernels;
  std::int64_t startup_ns = 60'000'000'000;    ///< head, and 5 % of the life
  std::int64_t linger_ns = 60'000'000'000;     ///< tail, or 5 % of the life
  std::int64_t idle_life_ns = 60'000'000'000;  ///< life without any device work
};

struct Findings {
  std::vector<Finding> told;       ///< in the order in which they should be read
  std::vector<Finding> set_aside;  ///< would be told, were another one not their likely root
  /// All of `told` together save at most this; never the sum of what overlaps.
  std::int64_t combined_saving_ns = 0;
  std::int64_t warm_up_ns = 0;       ///< 0 = none, or too much of the window to be left out
  std::int64_t warm_up_idle_ns = 0;  ///< idle time that no finding counts for that reason
};

/// `memory` is what DeviceMemoryMeter found; none: batch sizes are not spoken of. Context: tool.
Findings find_causes(const model::Recording& recording, const Idleness& idleness,
                     const Thresholds& thresholds, const std::vector<MemoryUse>& memory = {});

}  // namespace gpuidle::analysis
