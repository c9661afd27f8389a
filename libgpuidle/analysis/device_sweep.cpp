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
}

void DeviceSweep::add_idle(std::int64_t from_ns, std::int64_t until_ns, bool is_opened_by_work,
                           bool is_closed_by_work) {
  if (from_ns >= until_ns) return;
  if (doubtful_->empty()) {
    idle_ns_ += until_ns - from_ns;
    pieces_.push_back({from_ns, until_ns, is_opened_by_work, is_closed_by_work});
    return;
  }
  std::int64_t idle_ns = 0;
  for (const timeline::Interval& sure : timeline::gaps(*doubtful_, {from_ns, until_ns})) {
    idle_ns += sure.length_ns();
    pieces_.push_back({sure.start_ns, sure.end_ns, is_opened_by_work && sure.start_ns == from_ns,
                       is_closed_by_work && sure.end_ns == until_ns});
  }
  idle_ns_ += idle_ns;
  not_observed_ns_ += until_ns - from_ns - idle_ns;
}

void DeviceSweep::sweep_to(std::int64_t until_ns) {
  const std::int64_t from_ns = swept_ns_;
  const std::int64_t busy_until_ns = last_ns();
  swept_ns_ = until_ns;
  if (unobserved_->empty() || unobserved_->back().end_ns <= from_ns) {
    count_observed(from_ns, until_ns);
    add_idle(busy_until_ns, until_ns, true, true);
    return;
  }
  for (const timeline::Interval& span :
       timeline::gaps(*unobserved_, timeline::Interval{from_ns, until_ns})) {
    count_observed(span.start_ns, span.end_ns);
    const std::int64_t idle_from_ns = std::max(span.start_ns, busy_until_ns);
    add_idle(idle_from_ns, span.end_ns, idle_from_ns == busy_until_ns, span.end_ns == until_ns);
  }
  not_observed_ns_ += timeline::overlap_ns(*unobserved_, {from_ns, until_ns});
}

}  // namespace gpuidle::analysis
