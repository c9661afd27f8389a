// SPDX-License-Identifier: Apache-2.0
//
// What one rank of a distributed job brings to the comparison of ranks: its communication kernels,
// where no computation ran beside them, and its longer idle gaps. Fed beside analyze(); feeds the
// comparison of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {

/// One communication kernel, in the clock of its own recording.
struct Collective {
  model::StringId name = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  timeline::IntervalSet exposed;  ///< the parts beside which nothing computed
};

/// An idle gap that is long enough to make others wait.
struct RankGap {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  Cause cause = Cause::unknown;
  model::StackId stack = 0;  ///< of the blocking call, else of the closing one; 0 = none
};

/// Give it to analyze() as Options::also and Options::gaps. Looks at the rank's first used device;
/// memory grows with the number of collectives, up to kMaxCollectives. Context: tool.
class CollectiveMeter : public model::SliceVisitor, public GapSink {
 public:
  static constexpr std::size_t kMaxCollectives = 1U << 20;
  static constexpr std::int64_t kShortestGap_ns = 100'000;

  explicit CollectiveMeter(const model::Recording& recording);

  void on_slice(const model::Slice& slice) override;
  void on_gap(const Gap& gap) override;
  void finish();

  std::vector<Collective> collectives;  ///< by start; complete after finish()
  std::vector<RankGap> gaps;            ///< by start
  bool is_cut = false;                  ///< there were more than kMaxCollectives

 private:
  void add(const model::DeviceActivity& op);
  void close_until(std::int64_t start_ns);

  const model::Recording& recording_;
  std::vector<bool> is_communication_;  // by KernelId
  bool has_device_ = false;
  std::uint32_t device_ = 0;
  std::vector<std::size_t> open_;   // indices of collectives that may still be computed beside
  timeline::IntervalSet computed_;  // since the first open collective began
};

}  // namespace gpuidle::analysis
