// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/session/device_drain.h"

#include <algorithm>
#include <limits>

#include "libgpuidle/base/log.h"
#include "libgpuidle/record/host_call_recorder.h"

namespace gpuidle::session {
namespace {

// Clock error and interpolation may put a true record a little outside the session.
constexpr std::int64_t kSlack_ns = 1'000'000'000;
// Of so many records, one in so many may be bad before it is said.
constexpr std::uint64_t kWatchedRecords = 1000;
constexpr std::uint64_t kWorstBadShare = 10;

std::uint64_t impossible_times(const model::Losses& losses) {
  std::uint64_t sum = 0;
  for (const model::LossReason reason :
       {model::LossReason::zero_timestamp, model::LossReason::reversed_timestamp,
        model::LossReason::outside_session}) {
    sum += losses.count[static_cast<std::size_t>(reason)];
  }
  return sum;
}

}  // namespace

void DeviceDrain::sample_clock() {
  // The pair with the tightest bracket of a few tries: a descheduling in between shows as a wide
  // one.
  timeline::ClockPair best;
  std::int64_t best_width_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 8; ++i) {
    const std::int64_t before_ns = record::host_now_ns();
    const std::int64_t device_ns = source_.now();
    const std::int64_t after_ns = record::host_now_ns();
    if (after_ns - before_ns < best_width_ns) {
      best_width_ns = after_ns - before_ns;
      best = {device_ns, before_ns + best_width_ns / 2};
    }
  }
  clock_.add(best);
}

bool DeviceDrain::is_inside_session(const model::DeviceActivity& activity,
                                    std::int64_t session_start_ns, std::int64_t now_ns) {
  if (activity.end_ns > end_ns_) return false;
  if (activity.start_ns >= earlier_since_ns_ && activity.start_ns < session_start_ns) return false;
  if (activity.start_ns < session_start_ns - kSlack_ns || activity.end_ns > now_ns + kSlack_ns) {
    ++losses_.count[static_cast<std::size_t>(model::LossReason::outside_session)];
    return false;
  }
  return std::none_of(stopped_.begin(), stopped_.end(), [&](const model::Unobserved& span) {
    return activity.start_ns >= span.start_ns && activity.start_ns < span.end_ns;
  });
}

// Device memory that runs out under hours of CUDA graphs, and a clock that another tool has
// changed, show in nothing but records that cannot be.
void DeviceDrain::watch_bad_share(std::uint64_t good, std::uint64_t bad) {
  watched_good_ += good;
  watched_bad_ += bad;
  const std::uint64_t watched = watched_good_ + watched_bad_;
  if (watched < kWatchedRecords) return;
  if (watched_bad_ * kWorstBadShare > watched) {
    static base::LogKind bad_share;
    base::log_once(bad_share, base::LogLevel::warning,
                   "%llu of the last %llu device records have times that cannot be; they are left "
                   "out, so the device looks idler than it is (known after hours of CUDA graphs; "
                   "starting the program anew mends it)",
                   static_cast<unsigned long long>(watched_bad_),
                   static_cast<unsigned long long>(watched));
  }
  watched_good_ = 0;
  watched_bad_ = 0;
}

std::size_t DeviceDrain::drain(model::Slice& slice, std::int64_t session_start_ns) {
  const std::size_t before = slice.activities.size();
  const std::int64_t now_ns = record::host_now_ns();
  const std::uint64_t bad_before = impossible_times(losses_);
  for (;;) {
    const cupti::ActivityBuffers::Filled filled = source_.buffers().take();
    if (filled.data == nullptr) break;
    decoded_.clear();
    source_.decoder().decode(filled.data, filled.valid_bytes, tables_, decoded_, losses_);
    source_.buffers().release(filled);
    for (model::DeviceActivity& activity : decoded_.activities) {
      activity.start_ns = clock_.to_host(activity.start_ns);
      activity.end_ns = clock_.to_host(activity.end_ns);
      if (!is_inside_session(activity, session_start_ns, now_ns)) continue;
      const auto [at, is_new] = timelines_.try_emplace(activity.device, activity.device);
      at->second.add(activity.start_ns, activity.end_ns, activity.correlation);
      slice.activities.push_back(activity);
    }
    for (model::Overhead& overhead : decoded_.overheads) {
      overhead.start_ns = clock_.to_host(overhead.start_ns);
      overhead.end_ns = clock_.to_host(overhead.end_ns);
      slice.overheads.push_back(overhead);
    }
  }
  activities_ += slice.activities.size() - before;
  watch_bad_share(slice.activities.size() - before, impossible_times(losses_) - bad_before);
  return slice.activities.size() - before;
}

void DeviceDrain::keep_gaps(std::int64_t least_ns, model::Slice& slice) {
  for (const model::RecordedGap& gap : gaps_) {
    if (gap.end_ns - gap.start_ns >= least_ns) slice.gaps.push_back(gap);
  }
  gaps_.clear();
}

void DeviceDrain::advance(std::int64_t watermark_ns, std::int64_t least_ns, model::Slice& slice) {
  for (auto& [device, timeline] : timelines_) timeline.advance(watermark_ns, &gaps_);
  keep_gaps(least_ns, slice);
}

void DeviceDrain::finish(std::int64_t least_ns, model::Slice& slice) {
  for (auto& [device, timeline] : timelines_) timeline.finish(&gaps_);
  keep_gaps(least_ns, slice);
}

std::vector<control::DeviceTotals> DeviceDrain::totals() const {
  std::vector<control::DeviceTotals> totals;
  for (const auto& [device, timeline] : timelines_) {
    totals.push_back({device, timeline.busy_ns(), timeline.idle_ns(), timeline.gap_count()});
  }
  return totals;
}

void DeviceDrain::count_losses(model::Losses& losses) {
  losses_.count[static_cast<std::size_t>(model::LossReason::cupti_dropped)] =
      source_.lost_records();
  std::uint64_t late = 0;
  for (const auto& [device, timeline] : timelines_) late += timeline.late_count();
  losses_.count[static_cast<std::size_t>(model::LossReason::late_activity)] = late;
  for (std::size_t i = 0; i < losses.count.size(); ++i) losses.count[i] += losses_.count[i];
}

}  // namespace gpuidle::session
