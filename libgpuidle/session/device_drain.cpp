// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/session/device_drain.h"

#include <algorithm>
#include <limits>

#include "libgpuidle/record/host_call_recorder.h"

namespace gpuidle::session {
namespace {

// Clock error and interpolation may put a true record a little outside the session.
constexpr std::int64_t kSlack_ns = 1'000'000'000;

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
  if (activity.start_ns < session_start_ns - kSlack_ns || activity.end_ns > now_ns + kSlack_ns) {
    ++losses_.count[static_cast<std::size_t>(model::LossReason::outside_session)];
    return false;
  }
  return std::none_of(stopped_.begin(), stopped_.end(), [&](const model::Unobserved& span) {
    return activity.start_ns >= span.start_ns && activity.start_ns < span.end_ns;
  });
}

std::size_t DeviceDrain::drain(model::Slice& slice, std::int64_t session_start_ns) {
  const std::size_t before = slice.activities.size();
  const std::int64_t now_ns = record::host_now_ns();
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

void DeviceDrain::count_losses(model::Losses& losses) {
  losses_.count[static_cast<std::size_t>(model::LossReason::cupti_dropped)] =
      source_.lost_records();
  std::uint64_t late = 0;
  for (const auto& [device, timeline] : timelines_) late += timeline.late_count();
  losses_.count[static_cast<std::size_t>(model::LossReason::late_activity)] = late;
  for (std::size_t i = 0; i < losses.count.size(); ++i) losses.count[i] += losses_.count[i];
}

}  // namespace gpuidle::session
