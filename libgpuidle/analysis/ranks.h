// SPDX-License-Identifier: Apache-2.0
//
// Several recordings as one job: which collectives belong together, how far the ranks' clocks can
// be trusted, who waited for whom, and which waits only exist because a recording began late. Pure;
// fed by the job report with what CollectiveMeter found in each recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libgpuidle/analysis/collectives.h"

namespace gpuidle::analysis {

/// One rank's side. Times are in the recording's clock; what is not known is empty.
struct RankTrack {
  std::int32_t rank = 0;
  std::optional<std::int64_t> realtime_offset_ns;
  std::optional<std::int64_t> recording_start_ns;  ///< nothing is known of the rank before
  std::vector<std::string> names;                  ///< of collectives[i], same order
  std::vector<Collective> collectives;
  std::vector<RankGap> gaps;
};

/// Where a rank's clock stands against that of the first rank.
struct ClockAlignment {
  std::int64_t offset_ns = 0;  ///< add to the rank's times
  /// No matched collective contradicts it by more than this; of 20 or more, the worst twentieth is
  /// left out.
  std::int64_t bound_ns = 0;
  std::size_t matches = 0;
  /// How far the rank's wall clock is ahead of the first rank's, known to within bound_ns;
  /// empty if one of them is not recorded.
  std::optional<std::int64_t> skew_ns;
};

/// What a late rank did while others waited for it, most time first.
struct LateReason {
  Cause cause = Cause::unknown;
  model::StackId stack = 0;  ///< of the late rank's recording
  std::int64_t total_ns = 0;
};

/// Parts of a rank's communication time beside which it computed nothing; they add up to it for
/// collectives that were matched.
struct RankWaits {
  std::int64_t exposed_ns = 0;    ///< all of it, matched or not
  std::int64_t waited_ns = 0;     ///< for a rank that came late
  std::int64_t artefact_ns = 0;   ///< for a rank whose recording had not begun: nobody's fault
  std::int64_t transfer_ns = 0;   ///< from the last rank's arrival on
  std::int64_t unmatched_ns = 0;  ///< no partner in the other recordings
  std::int64_t caused_ns = 0;     ///< what the others waited for this rank, summed
  std::size_t late_count = 0;     ///< collectives to which it came last by kLateBy_ns or more
  std::vector<LateReason> reasons;
};

/// From here on coming last is being late; below, ranks are in step.
inline constexpr std::int64_t kLateBy_ns = 100'000;
/// A clock bound above this is no alignment.
inline constexpr std::int64_t kMaxClockBound_ns = 1'000'000;
inline constexpr std::size_t kFewestMatches = 3;

struct JobRanks {
  /// Why the ranks cannot be compared; empty = they can.
  std::string refusal;
  std::vector<ClockAlignment> clocks;  ///< by track; empty if refused
  std::vector<RankWaits> waits;        ///< by track
  std::size_t matched_count = 0;       ///< collectives found on every rank

  std::int64_t bound_ns() const;  ///< the largest of all
};

/// Needs two tracks or more. Context: tool.
JobRanks compare_ranks(const std::vector<RankTrack>& tracks);

}  // namespace gpuidle::analysis
