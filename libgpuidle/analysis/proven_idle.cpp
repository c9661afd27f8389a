// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/proven_idle.h"

#include <algorithm>

#include "libgpuidle/analysis/device_wide.h"

namespace gpuidle::analysis {
namespace {

CallSite site_of(const model::ApiCall& call) {
  return {call.enter_ns, call.exit_ns, call.correlation, call.thread,
          call.api,      call.stack,   call.role};
}

}  // namespace

ProvenIdle::ProvenIdle(const model::Tables& tables, const timeline::IntervalSet* unobserved,
                       GapTotals* totals)
    : is_device_wide_(device_wide_synchronisations(tables)),
      unobserved_(unobserved),
      totals_(totals) {
  result_.is_device_known = tables.devices().size() == 1;
  if (result_.is_device_known) result_.device = tables.devices().front().ordinal;
}

bool ProvenIdle::drains_device(const model::ApiCall& call) const {
  return call.role == model::ApiRole::sync_blocking && call.result == 0 &&
         call.api < is_device_wide_.size() && is_device_wide_[call.api];
}

void ProvenIdle::add(const model::ApiCall& call) {
  Ledger& ledger = result_.ledger;
  if (model::enqueues_work(call.role)) {
    if (!has_enqueued_) ledger.start_ns = ledger.end_ns = call.enter_ns;
    has_enqueued_ = true;
    if (drained_by_ && call.enter_ns > drained_by_->exit_ns) close_gap(call);
    drained_by_.reset();
    enqueueing_until_ns_ = std::max(enqueueing_until_ns_, call.exit_ns);
    ledger.end_ns = std::max(ledger.end_ns, call.exit_ns);
  } else if (has_enqueued_ && drains_device(call) && enqueueing_until_ns_ <= call.enter_ns) {
    if (!drained_by_ || call.exit_ns < drained_by_->exit_ns) drained_by_ = call;
    ledger.end_ns = std::max(ledger.end_ns, drained_by_->exit_ns);
  }
}

void ProvenIdle::close_gap(const model::ApiCall& next) {
  for (const timeline::Interval& span :
       timeline::gaps(*unobserved_, {drained_by_->exit_ns, next.enter_ns})) {
    Gap gap;
    gap.start_ns = span.start_ns;
    gap.end_ns = span.end_ns;
    gap.device = result_.device;
    gap.opener = Opener::blocked_in;
    gap.split.host_ns = span.length_ns();
    gap.closing = site_of(next);
    gap.blocking = site_of(*drained_by_);
    gap.cause = Cause::explicit_sync;
    gap.grade = Grade::b;
    totals_->add(gap, false, &result_);
  }
}

std::optional<DeviceIdleness> ProvenIdle::finish(const model::RecordingInfo& info) {
  if (!has_enqueued_) return std::nullopt;
  Ledger& ledger = result_.ledger;
  ledger.not_observed_ns = ledger.wall_ns() - ledger.idle.total_ns();
  if (info.process_start_ns) {
    result_.head_ns = std::max<std::int64_t>(0, ledger.start_ns - *info.process_start_ns);
  }
  if (info.recording_end_ns) {
    result_.tail_ns = std::max<std::int64_t>(0, *info.recording_end_ns - ledger.end_ns);
  }
  return result_;
}

}  // namespace gpuidle::analysis
