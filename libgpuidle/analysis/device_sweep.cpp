// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/device_sweep.h"

namespace gpuidle::analysis {

// Precedence is the order of BusyKind: a moment that several kinds cover belongs to the first.
void DeviceSweep::count_observed(std::int64_t from_ns, std::int64_t until_ns) {
  for (std::size_t kind = 0; kind < end_ns_.size(); ++kind) {
    const std::int64_t to_ns = std::min(until_ns, end_ns_[kind]);
    if (to_ns <= from_ns) continue;
    total_ns_[kind] += to_ns - from_ns;
    if (kind != static_cast<std::size_t>(BusyKind::compute)) {
      exposed_.push_back({static_cast<BusyKind>(kind), owner_[kind], to_ns - from_ns});
    }
    from_ns = to_ns;
  }
  idle_ns_ += until_ns - from_ns;
}

void DeviceSweep::sweep_to(std::int64_t until_ns) {
  const std::int64_t from_ns = swept_ns_;
  const std::int64_t busy_until_ns = last_ns();
  swept_ns_ = until_ns;
  if (unobserved_->empty() || unobserved_->back().end_ns <= from_ns) {
    count_observed(from_ns, until_ns);
    if (busy_until_ns < until_ns) pieces_.push_back({busy_until_ns, until_ns, true, true});
    return;
  }
  for (const timeline::Interval& span :
       timeline::gaps(*unobserved_, timeline::Interval{from_ns, until_ns})) {
    count_observed(span.start_ns, span.end_ns);
    const std::int64_t idle_from_ns = std::max(span.start_ns, busy_until_ns);
    if (idle_from_ns < span.end_ns) {
      pieces_.push_back(
          {idle_from_ns, span.end_ns, idle_from_ns == busy_until_ns, span.end_ns == until_ns});
    }
  }
  not_observed_ns_ += timeline::overlap_ns(*unobserved_, {from_ns, until_ns});
}

}  // namespace gpuidle::analysis
