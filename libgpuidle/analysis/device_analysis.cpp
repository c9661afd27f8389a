// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/device_analysis.h"

#include <algorithm>
#include <tuple>

namespace gpuidle::analysis {
namespace {

CallSite site_of(const model::ApiCall& call) {
  return {call.enter_ns, call.exit_ns, call.thread, call.api, call.stack};
}

void count(const model::DeviceActivity& op, BusyKind kind, DeviceIdleness* result) {
  switch (op.kind) {
    case model::ActivityKind::kernel:
      ++result->kernel_count;
      if (kind == BusyKind::communication) ++result->communication_count;
      break;
    case model::ActivityKind::memcpy:
      ++result->copy_count;
      break;
    case model::ActivityKind::memset:
      ++result->set_count;
      break;
    case model::ActivityKind::graph:
      ++result->graph_count;
      break;
    case model::ActivityKind::unknown:
      break;
  }
}

}  // namespace

bool DeviceAnalysis::add(const model::DeviceActivity& op, BusyKind kind) {
  if (!sweep_.is_empty() && op.start_ns < sweep_.swept_ns()) return false;
  const model::ApiCall* call = calls_->find(op.correlation);
  count(op, kind, &result_);
  if (call == nullptr) ++result_.without_call_count;
  for (const IdlePiece& piece : sweep_.add(op.start_ns, op.end_ns, kind)) open_gap(piece, call);
  if (call != nullptr) {
    open_.enqueued_by(call->enter_ns, call->exit_ns);
    improve_closing(op.start_ns, *call);
  }
  return true;
}

void DeviceAnalysis::open_gap(const IdlePiece& piece, const model::ApiCall* closing) {
  if (!piece.is_closed_by_work) closing = nullptr;
  if (open_.is_full()) totals_->add(open_.pop(), &result_);
  Gap& gap = open_.push({piece.start_ns, piece.end_ns}, closing != nullptr);
  gap.device = result_.device;
  newest_correlation_ = closing != nullptr ? closing->correlation : 0;
  is_newest_opened_by_work_ = piece.is_opened_by_work;
  if (closing == nullptr) return;
  gap.closing = site_of(*closing);
  if (piece.is_opened_by_work) name_opener(&gap, closing);
}

void DeviceAnalysis::name_opener(Gap* gap, const model::ApiCall* closing) const {
  gap->opener = Opener::unknown;
  gap->blocking.reset();
  gap->saving_bound_ns.reset();
  if (closing->thread == 0) return;
  const CallTable::Blocking blocking = calls_->blocking_at(closing->thread, gap->start_ns);
  if (blocking.is_forgotten) return;
  gap->opener = Opener::ran_dry;
  if (blocking.call == nullptr) return;
  const model::ApiCall& call = *blocking.call;
  if (call.exit_ns >= gap->end_ns + kClockSlack_ns) return;
  gap->opener = Opener::blocked_in;
  gap->blocking = site_of(call);
  const std::int64_t from_ns = std::max(call.enter_ns, sweep_.first_ns());
  const std::int64_t busy_ns = gap->start_ns - from_ns - open_.idle_since(from_ns);
  gap->saving_bound_ns = std::min(gap->length_ns(), busy_ns);
}

// Of the operations that ended a gap together, the one that was enqueued first is its closing one.
void DeviceAnalysis::improve_closing(std::int64_t start_ns, const model::ApiCall& call) {
  Gap* gap = open_.newest();
  if (gap == nullptr || gap->end_ns != start_ns || newest_correlation_ == call.correlation) return;
  if (gap->closing && std::tie(gap->closing->enter_ns, newest_correlation_) <=
                          std::tie(call.enter_ns, call.correlation)) {
    return;
  }
  gap->closing = site_of(call);
  newest_correlation_ = call.correlation;
  open_.set_newest_split_known();
  if (is_newest_opened_by_work_) name_opener(gap, &call);
}

DeviceIdleness DeviceAnalysis::finish(const model::RecordingInfo& info) {
  sweep_.finish();
  while (!open_.is_empty()) totals_->add(open_.pop(), &result_);
  Ledger& ledger = result_.ledger;
  ledger.start_ns = sweep_.first_ns();
  ledger.end_ns = sweep_.last_ns();
  ledger.compute_ns = sweep_.total_ns(BusyKind::compute);
  ledger.exposed_communication_ns = sweep_.total_ns(BusyKind::communication);
  ledger.exposed_copy_ns = sweep_.total_ns(BusyKind::copy);
  ledger.not_observed_ns = sweep_.not_observed_ns();
  if (info.process_start_ns) {
    result_.head_ns = std::max<std::int64_t>(0, ledger.start_ns - *info.process_start_ns);
  }
  if (info.recording_end_ns) {
    result_.tail_ns = std::max<std::int64_t>(0, *info.recording_end_ns - ledger.end_ns);
  }
  return result_;
}

}  // namespace gpuidle::analysis
