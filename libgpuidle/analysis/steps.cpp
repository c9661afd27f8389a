// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/steps.h"

#include <algorithm>

namespace gpuidle::analysis {
namespace {

constexpr std::size_t kLeastSteps = 5;
// Fewer operations between two launches of a kernel are a loop inside a step.
constexpr std::size_t kLeastOperations = 3;
// Of the distances between launches of a kernel, in operations, this share must be alike.
constexpr double kAlike = 0.8;
// This share of all operations must lie between them.
constexpr double kCovered = 0.6;
constexpr std::size_t kReasons = 3;

// The distance between launches at `positions`, in operations, if it repeats; else 0.
std::size_t period_of(const std::vector<std::size_t>& positions, std::size_t operations) {
  if (positions.size() <= kLeastSteps) return 0;
  std::vector<std::size_t> distances;
  for (std::size_t i = 1; i < positions.size(); ++i) {
    distances.push_back(positions[i] - positions[i - 1]);
  }
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  const std::size_t median = *middle;
  const std::size_t slack = std::max<std::size_t>(1, median / 20);
  const auto alike = std::count_if(distances.begin(), distances.end(), [&](std::size_t distance) {
    return distance + slack >= median && distance <= median + slack;
  });
  const bool repeats = static_cast<double>(alike) >= kAlike * static_cast<double>(distances.size());
  const bool covers =
      static_cast<double>(median * distances.size()) >= kCovered * static_cast<double>(operations);
  return median >= kLeastOperations && repeats && covers ? median : 0;
}

}  // namespace

void StepSeries::begin_step(std::int64_t at_ns) {
  if (steps_.size() > kMost) {
    is_cut_ = true;
    return;
  }
  steps_.push_back({at_ns, {}});
}

void StepSeries::add(const StepGap& gap) {
  while (at_ + 1 < steps_.size() && steps_[at_ + 1].start_ns <= gap.start_ns) ++at_;
  if (at_ + 1 >= steps_.size() || steps_[at_].start_ns > gap.start_ns) return;
  steps_[at_].idle_ns[static_cast<std::size_t>(gap.cause)] += gap.length_ns;
}

std::optional<StepTimes> StepSeries::times() const {
  if (steps_.size() <= kLeastSteps) return std::nullopt;
  std::vector<std::int64_t> sorted;
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) sorted.push_back(duration_ns(i));
  std::sort(sorted.begin(), sorted.end());
  StepTimes times;
  times.is_cut = is_cut_;
  times.count = sorted.size();
  times.median_ns = sorted[sorted.size() / 2];
  times.p95_ns = sorted[(sorted.size() * 95 + 99) / 100 - 1];
  times.shortest_ns = sorted.front();
  times.longest_ns = sorted.back();
  find_reasons(&times);
  return times;
}

void StepSeries::find_reasons(StepTimes* times) const {
  std::array<std::int64_t, kCauseCount> slow_ns{}, other_ns{};
  std::int64_t others = 0;
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
    const bool is_slow =
        static_cast<double>(duration_ns(i)) > kSlowStep * static_cast<double>(times->median_ns);
    if (is_slow) {
      ++times->slow_count;
      times->slow_extra_ns += duration_ns(i) - times->median_ns;
    } else {
      ++others;
    }
    auto& sums = is_slow ? slow_ns : other_ns;
    for (std::size_t cause = 0; cause < kCauseCount; ++cause) {
      sums[cause] += steps_[i].idle_ns[cause];
    }
  }
  if (times->slow_count == 0 || others == 0) return;
  for (std::size_t cause = 0; cause < kCauseCount; ++cause) {
    const std::int64_t usual_ns =
        other_ns[cause] / others * static_cast<std::int64_t>(times->slow_count);
    const std::int64_t extra_ns = std::min(slow_ns[cause] - usual_ns, times->slow_extra_ns);
    if (extra_ns * 20 >= times->slow_extra_ns) {
      times->reasons.push_back({static_cast<Cause>(cause), extra_ns});
    }
  }
  std::sort(times->reasons.begin(), times->reasons.end(),
            [](const SlowReason& a, const SlowReason& b) { return a.extra_ns > b.extra_ns; });
  if (times->reasons.size() > kReasons) times->reasons.resize(kReasons);
}

void StepFinder::on_slice(const model::Slice& slice) {
  for (const model::Marker& marker : slice.markers) {
    if (marker.kind != model::Marker::Kind::step) continue;
    first_marks_.emplace(marker.thread, marker.name);
    marked_[marker.thread].begin_step(marker.start_ns);
  }
  for (const model::DeviceActivity& op : slice.activities) {
    if (is_decided_) {
      if (op.kernel == anchor_ && anchor_ != 0 && op.device == device_) {
        repeated_.begin_step(op.start_ns);
      }
    } else if (op.kernel != 0) {
      first_.push_back({op.start_ns, op.kernel, op.device});
      if (first_.size() == kLookedAt) decide();
    }
  }
  if (is_decided_) charge_gaps(false);
}

// The kernel that comes back after the same number of operations; of several, the one with most
// operations between: what repeats inside a step repeats with it.
void StepFinder::decide() {
  is_decided_ = true;
  std::map<std::uint32_t, std::size_t> launches;
  for (const Launch& launch : first_) ++launches[launch.device];
  std::size_t operations = 0;
  for (const auto& [device, count] : launches) {
    if (count <= operations) continue;
    operations = count;
    device_ = device;
  }
  std::map<model::KernelId, std::vector<std::size_t>> positions;
  std::size_t position = 0;
  for (const Launch& launch : first_) {
    if (launch.device == device_) positions[launch.kernel].push_back(position++);
  }
  std::size_t longest = 0, first_position = 0;
  for (const auto& [kernel, at] : positions) {
    const std::size_t period = period_of(at, operations);
    if (period == 0 || period < longest) continue;
    if (period == longest && at.front() >= first_position) continue;
    longest = period;
    first_position = at.front();
    anchor_ = kernel;
  }
  for (const Launch& launch : first_) {
    if (anchor_ != 0 && launch.kernel == anchor_ && launch.device == device_) {
      repeated_.begin_step(launch.start_ns);
    }
  }
  first_.clear();
  first_.shrink_to_fit();
}

bool StepFinder::is_open_at(std::int64_t at_ns) const {
  return repeated_.is_open_at(at_ns) ||
         std::any_of(marked_.begin(), marked_.end(),
                     [at_ns](const auto& row) { return row.second.is_open_at(at_ns); });
}

// A gap waits until it is known in which step it lies.
void StepFinder::charge_gaps(bool is_last) {
  std::size_t kept = 0;
  const bool may_wait = !is_last && gaps_.size() < kLookedAt;
  for (const StepGap& gap : gaps_) {
    if (gap.device != device_) continue;
    if (may_wait && is_open_at(gap.start_ns)) {
      gaps_[kept++] = gap;
      continue;
    }
    repeated_.add(gap);
    for (auto& [thread, series] : marked_) series.add(gap);
  }
  gaps_.resize(kept);
}

std::optional<StepTimes> StepFinder::finish() {
  if (!is_decided_) decide();
  charge_gaps(true);
  std::optional<StepTimes> best;
  for (const auto& [thread, series] : marked_) {
    auto times = series.times();
    if (!times || (best && best->count >= times->count)) continue;
    times->is_marked = true;
    times->name = first_marks_[thread];
    best = times;
  }
  if (!best && anchor_ != 0) {
    best = repeated_.times();
    if (best && anchor_ < tables_.kernels().size()) best->name = tables_.kernels()[anchor_].name;
  }
  if (best) best->device = device_;
  return best;
}

}  // namespace gpuidle::analysis
