// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>

namespace gpuidle::analysis {
namespace {

constexpr std::ptrdiff_t kMaxShift = 64;
constexpr std::size_t kSampled = 512;

using ByName = std::map<std::string, std::vector<std::size_t>>;

ByName by_name(const RankTrack& track) {
  ByName found;
  for (std::size_t i = 0; i < track.collectives.size(); ++i) found[track.names[i]].push_back(i);
  return found;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// All ranks leave a collective together: its end is the moment that their clocks share.
std::int64_t wall_end(const RankTrack& track, std::size_t index) {
  return track.collectives[index].end_ns + track.realtime_offset_ns.value_or(0);
}

// How far the ends of the collectives of one name are apart, by the wall clocks, if the second
// rank's i-th is the first one's i + shift. Empty if too few are left.
std::optional<std::int64_t> distance_at(std::ptrdiff_t shift, const RankTrack& a,
                                        const std::vector<std::size_t>& in_a, const RankTrack& b,
                                        const std::vector<std::size_t>& in_b) {
  std::vector<std::int64_t> differences;
  for (std::size_t i = 0; i < in_b.size() && differences.size() < kSampled; ++i) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) + shift;
    if (at < 0 || at >= static_cast<std::ptrdiff_t>(in_a.size())) continue;
    differences.push_back(
        std::abs(wall_end(a, in_a[static_cast<std::size_t>(at)]) - wall_end(b, in_b[i])));
  }
  if (differences.size() < std::min({kFewestMatches, in_a.size(), in_b.size()})) {
    return std::nullopt;
  }
  return median(differences);
}

// How many collectives of one name the second rank's recording begins after the first one's. Equal
// counts speak for none, unless wall clocks that agree to a millisecond say otherwise. Empty if it
// cannot be told.
std::optional<std::ptrdiff_t> shift_of(const RankTrack& a, const std::vector<std::size_t>& in_a,
                                       const RankTrack& b, const std::vector<std::size_t>& in_b) {
  const bool has_wall_clocks = a.realtime_offset_ns && b.realtime_offset_ns;
  const bool is_equal = in_a.size() == in_b.size();
  if (!has_wall_clocks) return is_equal ? std::optional<std::ptrdiff_t>(0) : std::nullopt;
  std::optional<std::tuple<std::int64_t, std::ptrdiff_t, std::ptrdiff_t>> best;
  for (std::ptrdiff_t shift = -kMaxShift; shift <= kMaxShift; ++shift) {
    const auto distance_ns = distance_at(shift, a, in_a, b, in_b);
    if (!distance_ns) continue;
    const auto score = std::make_tuple(*distance_ns, std::abs(shift), shift);
    if (!best || score < *best) best = score;
  }
  if (is_equal && (!best || std::get<0>(*best) >= kMaxClockBound_ns)) return 0;
  if (!best) return std::nullopt;
  return std::get<2>(*best);
}

// partner[i] of a collective i of the first track; empty = none.
using Partners = std::vector<std::optional<std::size_t>>;

Partners partners_of(const RankTrack& a, const RankTrack& b) {
  Partners partners(a.collectives.size());
  const ByName in_a = by_name(a), in_b = by_name(b);
  for (const auto& [name, indices] : in_a) {
    const auto found = in_b.find(name);
    if (found == in_b.end()) continue;
    const auto shift = shift_of(a, indices, b, found->second);
    if (!shift) continue;
    for (std::size_t i = 0; i < found->second.size(); ++i) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) + *shift;
      if (at < 0 || at >= static_cast<std::ptrdiff_t>(indices.size())) continue;
      partners[indices[static_cast<std::size_t>(at)]] = found->second[i];
    }
  }
  return partners;
}

// From the ends of matched collectives; bound_ns is what contradicts the offset most, leaving out
// the worst twentieth where there are enough to be choosy.
ClockAlignment align(const RankTrack& a, const RankTrack& b, const Partners& partners) {
  std::vector<std::int64_t> differences;
  for (std::size_t i = 0; i < partners.size(); ++i) {
    if (!partners[i]) continue;
    differences.push_back(a.collectives[i].end_ns - b.collectives[*partners[i]].end_ns);
  }
  ClockAlignment clock;
  clock.matches = differences.size();
  if (differences.empty()) return clock;
  clock.offset_ns = median(differences);
  for (std::int64_t& difference : differences) difference = std::abs(difference - clock.offset_ns);
  std::sort(differences.begin(), differences.end());
  const std::size_t spared = differences.size() >= 20 ? differences.size() / 20 : 0;
  clock.bound_ns = differences[differences.size() - 1 - spared];
  if (a.realtime_offset_ns && b.realtime_offset_ns) {
    clock.skew_ns = *b.realtime_offset_ns - *a.realtime_offset_ns - clock.offset_ns;
  }
  return clock;
}

// One collective as it happened on all ranks, in the first rank's clock.
struct Meeting {
  std::vector<std::size_t> index;      // by track
  std::vector<std::int64_t> start_ns;  // by track
  std::size_t last = 0;                // the track that came last
  bool is_first = false;               // nothing was matched before
};

class Comparison {
 public:
  Comparison(const std::vector<RankTrack>& tracks, JobRanks* job) : tracks_(tracks), job_(*job) {}

  void add(const Meeting& meeting);
  void finish();

 private:
  std::optional<std::int64_t> begin_of(std::size_t track) const;
  std::int64_t artefact_end(const Meeting& meeting, std::size_t track) const;
  void add_reasons(const Meeting& meeting, std::int64_t from_ns);

  using ReasonKey = std::pair<Cause, model::StackId>;
  const std::vector<RankTrack>& tracks_;
  JobRanks& job_;
  std::vector<std::map<ReasonKey, std::int64_t>> reasons_{tracks_.size()};
};

std::optional<std::int64_t> Comparison::begin_of(std::size_t track) const {
  if (!tracks_[track].recording_start_ns) return std::nullopt;
  return *tracks_[track].recording_start_ns + job_.clocks[track].offset_ns;
}

// Up to when a track that came at `from_ns` waited for a recording instead of a rank. What the late
// rank did before its recording began is not known. Until the ranks have met once there is more:
// one that was recorded later did the same work later, and whether the program or the profilers
// were apart cannot be told.
std::int64_t Comparison::artefact_end(const Meeting& meeting, std::size_t track) const {
  const std::int64_t from_ns = meeting.start_ns[track];
  const std::int64_t last_ns = meeting.start_ns[meeting.last];
  const auto late_begin_ns = begin_of(meeting.last), own_begin_ns = begin_of(track);
  std::int64_t until_ns = late_begin_ns.value_or(from_ns);
  if (meeting.is_first) {
    until_ns = late_begin_ns && own_begin_ns
                   ? std::max(until_ns, from_ns + *late_begin_ns - *own_begin_ns)
                   : last_ns;
  }
  return std::clamp(until_ns, from_ns, last_ns);
}

void Comparison::add(const Meeting& meeting) {
  const std::int64_t last_ns = meeting.start_ns[meeting.last];
  std::int64_t blamed_from_ns = last_ns;
  std::int64_t caused_ns = 0;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    const std::int64_t offset_ns = job_.clocks[i].offset_ns;
    const std::int64_t from_ns = meeting.start_ns[i];
    const bool is_waiting = last_ns - from_ns >= kLateBy_ns;
    const std::int64_t artefact_until_ns = artefact_end(meeting, i);
    RankWaits& waits = job_.waits[i];
    for (const timeline::Interval& piece : tracks_[i].collectives[meeting.index[i]].exposed) {
      const auto part = [&](std::int64_t begin_ns, std::int64_t end_ns) {
        return std::max<std::int64_t>(0, std::min(piece.end_ns + offset_ns, end_ns) -
                                             std::max(piece.start_ns + offset_ns, begin_ns));
      };
      const std::int64_t artefact_ns = is_waiting ? part(from_ns, artefact_until_ns) : 0;
      const std::int64_t waited_ns = is_waiting ? part(artefact_until_ns, last_ns) : 0;
      waits.artefact_ns += artefact_ns;
      waits.waited_ns += waited_ns;
      waits.transfer_ns += piece.length_ns() - artefact_ns - waited_ns;
      caused_ns += waited_ns;
    }
    if (is_waiting) blamed_from_ns = std::min(blamed_from_ns, artefact_until_ns);
  }
  if (caused_ns == 0) return;
  job_.waits[meeting.last].caused_ns += caused_ns;
  ++job_.waits[meeting.last].late_count;
  add_reasons(meeting, blamed_from_ns);
}

// The late rank's idle gaps between the first waiter's arrival and its own.
void Comparison::add_reasons(const Meeting& meeting, std::int64_t from_ns) {
  const RankTrack& late = tracks_[meeting.last];
  const std::int64_t offset_ns = job_.clocks[meeting.last].offset_ns;
  const timeline::Interval span{from_ns - offset_ns, meeting.start_ns[meeting.last] - offset_ns};
  auto gap =
      std::upper_bound(late.gaps.begin(), late.gaps.end(), span.start_ns,
                       [](std::int64_t at_ns, const RankGap& one) { return at_ns < one.end_ns; });
  for (; gap != late.gaps.end() && gap->start_ns < span.end_ns; ++gap) {
    const std::int64_t ns =
        std::min(gap->end_ns, span.end_ns) - std::max(gap->start_ns, span.start_ns);
    if (ns > 0) reasons_[meeting.last][{gap->cause, gap->stack}] += ns;
  }
}

void Comparison::finish() {
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    for (const auto& [key, ns] : reasons_[i]) {
      job_.waits[i].reasons.push_back({key.first, key.second, ns});
    }
    std::stable_sort(
        job_.waits[i].reasons.begin(), job_.waits[i].reasons.end(),
        [](const LateReason& a, const LateReason& b) { return a.total_ns > b.total_ns; });
  }
}

// The least usual distance between two collectives of one name: clocks that differ by more than
// half of it could be matched one too far.
std::int64_t spacing_of(const RankTrack& track) {
  std::int64_t least_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, indices] : by_name(track)) {
    std::vector<std::int64_t> distances;
    for (std::size_t i = 1; i < indices.size(); ++i) {
      distances.push_back(track.collectives[indices[i]].end_ns -
                          track.collectives[indices[i - 1]].end_ns);
    }
    if (!distances.empty()) least_ns = std::min(least_ns, median(distances));
  }
  return least_ns;
}

// True if the ranks have as many collectives of each name, so that order alone matches them.
bool has_equal_counts(const RankTrack& a, const RankTrack& b) {
  const ByName in_a = by_name(a), in_b = by_name(b);
  return in_a.size() == in_b.size() &&
         std::equal(in_a.begin(), in_a.end(), in_b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && x.second.size() == y.second.size();
         });
}

std::string refusal_of(const std::vector<RankTrack>& tracks,
                       const std::vector<ClockAlignment>& clocks) {
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const std::string rank = "rank " + std::to_string(tracks[i].rank);
    if (tracks[i].collectives.empty()) return rank + " has no communication kernels";
    if (i == 0) continue;
    if (clocks[i].matches < kFewestMatches) {
      return "only " + std::to_string(clocks[i].matches) + " collectives of " + rank +
             " are found on rank " + std::to_string(tracks[0].rank) + " as well, at least " +
             std::to_string(kFewestMatches) + " are needed";
    }
    const std::int64_t skew_ns = std::abs(clocks[i].skew_ns.value_or(0));
    if (!has_equal_counts(tracks[0], tracks[i]) && skew_ns > spacing_of(tracks[0]) / 2) {
      return "the clock of " + rank + " is " + std::to_string(skew_ns / 1000) +
             " us off and the recordings hold different numbers of collectives: which belong "
             "together cannot be told";
    }
    if (clocks[i].bound_ns > kMaxClockBound_ns) {
      return "the collectives of " + rank + " end up to " +
             std::to_string(clocks[i].bound_ns / 1000) + " us apart from those of rank " +
             std::to_string(tracks[0].rank) + ": they may not belong together";
    }
  }
  return {};
}

}  // namespace

std::int64_t JobRanks::bound_ns() const {
  std::int64_t bound_ns = 0;
  for (const ClockAlignment& clock : clocks) bound_ns = std::max(bound_ns, clock.bound_ns);
  return bound_ns;
}

JobRanks compare_ranks(const std::vector<RankTrack>& tracks) {
  JobRanks job;
  job.waits.resize(tracks.size());
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    for (const Collective& one : tracks[i].collectives) {
      job.waits[i].exposed_ns += timeline::length_ns(one.exposed);
    }
    job.waits[i].unmatched_ns = job.waits[i].exposed_ns;
  }
  std::vector<Partners> partners;
  for (const RankTrack& track : tracks) {
    partners.push_back(partners_of(tracks[0], track));
    job.clocks.push_back(align(tracks[0], track, partners.back()));
  }
  job.refusal = refusal_of(tracks, job.clocks);
  if (!job.refusal.empty()) {
    job.clocks.clear();
    return job;
  }
  Comparison comparison(tracks, &job);
  for (std::size_t at = 0; at < tracks[0].collectives.size(); ++at) {
    Meeting meeting;
    for (std::size_t i = 0; i < tracks.size(); ++i) {
      if (!partners[i][at]) break;
      meeting.index.push_back(*partners[i][at]);
      meeting.start_ns.push_back(tracks[i].collectives[*partners[i][at]].start_ns +
                                 job.clocks[i].offset_ns);
      if (meeting.start_ns.back() > meeting.start_ns[meeting.last]) meeting.last = i;
    }
    if (meeting.index.size() != tracks.size()) continue;
    meeting.is_first = job.matched_count == 0;
    ++job.matched_count;
    comparison.add(meeting);
  }
  comparison.finish();
  for (RankWaits& waits : job.waits) {
    waits.unmatched_ns = waits.exposed_ns - waits.waited_ns - waits.artefact_ns - waits.transfer_ns;
  }
  return job;
}

}  // namespace gpuidle::analysis
