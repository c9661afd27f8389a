// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/timeline/device_timeline.h"

#include <algorithm>
#include <limits>

namespace gpuidle::timeline {

void DeviceTimeline::add(std::int64_t start_ns, std::int64_t end_ns, std::uint32_t correlation) {
  pending_.push_back({start_ns, end_ns, correlation});
  if (pending_.size() < kMaxPending) return;
  const auto middle = pending_.begin() + static_cast<std::ptrdiff_t>(pending_.size() / 2);
  std::nth_element(pending_.begin(), middle, pending_.end(),
                   [](const Pending& a, const Pending& b) { return a.start_ns < b.start_ns; });
  // +1: with all starts equal, "before the middle" would be nothing and the memory would grow.
  const std::int64_t middle_ns = middle->start_ns;
  watermark_ns_ = std::max(watermark_ns_, middle_ns + 1);
  close_before(watermark_ns_, &early_);
}

void DeviceTimeline::advance(std::int64_t watermark_ns, std::vector<model::RecordedGap>* closed) {
  closed->insert(closed->end(), early_.begin(), early_.end());
  early_.clear();
  watermark_ns_ = std::max(watermark_ns_, watermark_ns);
  close_before(watermark_ns_, closed);
}

void DeviceTimeline::finish(std::vector<model::RecordedGap>* closed) {
  advance(std::numeric_limits<std::int64_t>::max(), closed);
}

void DeviceTimeline::close_before(std::int64_t watermark_ns,
                                  std::vector<model::RecordedGap>* closed) {
  const auto first_open = std::partition(pending_.begin(), pending_.end(), [&](const Pending& op) {
    return op.start_ns < watermark_ns;
  });
  // Correlation 0 means "not known" and must not hide a known one of the same start.
  std::sort(pending_.begin(), first_open, [](const Pending& a, const Pending& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    if (a.correlation != b.correlation) return a.correlation - 1U < b.correlation - 1U;
    return a.end_ns < b.end_ns;
  });
  for (auto op = pending_.begin(); op != first_open; ++op) close(*op, closed);
  pending_.erase(pending_.begin(), first_open);
}

void DeviceTimeline::close(const Pending& op, std::vector<model::RecordedGap>* closed) {
  ++closed_count_;
  if (!has_closed_) {
    has_closed_ = true;
    first_ns_ = run_start_ns_ = op.start_ns;
    last_ns_ = op.end_ns;
    return;
  }
  if (op.start_ns < run_start_ns_) {
    // Reaches into time that was given out as idle, or lies before the first operation. Only what
    // touches the current run can still be told; the rest stays as it was reported.
    ++late_count_;
  } else if (op.start_ns > last_ns_) {
    model::RecordedGap gap;
    gap.start_ns = last_ns_;
    gap.end_ns = op.start_ns;
    gap.device = device_;
    gap.closing_correlation = op.correlation;
    closed->push_back(gap);
    ++gap_count_;
    idle_ns_ += gap.end_ns - gap.start_ns;
    run_start_ns_ = op.start_ns;
  }
  last_ns_ = std::max(last_ns_, op.end_ns);
}

}  // namespace gpuidle::timeline
