// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/device_analysis.h"

#include <algorithm>
#include <tuple>

#include "libgpuidle/analysis/verdict.h"

namespace gpuidle::analysis {
namespace {

CallSite site_of(const model::ApiCall& call) {
  return {call.enter_ns, call.exit_ns, call.correlation, call.thread,
          call.api,      call.stack,   call.role};
}

EdgeOperation edge_of(const model::DeviceActivity& op) {
  return {op.kind, op.copy, op.source, op.bytes, op.correlation};
}

// Enqueueing takes 5 to 20 us; a thousand times that is a wait for room in the queue.
constexpr std::int64_t kLongLaunch_ns = 1'000'000;
// A shorter kernel may well end before the call that launched it returns, with no one waiting.
constexpr std::int64_t kClearKernel_ns = 50'000;
constexpr std::int64_t kEpisodePause_ns = 2'000'000'000;

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
  const model::ApiCall* call = shared_.host->calls().find(op.correlation);
  count(op, kind, &result_);
  if (call == nullptr) ++result_.without_call_count;
  const std::uint32_t owner =
      kind == BusyKind::compute ? 0 : shared_.exposed->add(op, call, &shared_.host->frames());
  const std::vector<IdlePiece>& pieces = sweep_.add(op.start_ns, op.end_ns, kind, owner);
  for (const IdlePiece& piece : pieces) open_gap(piece, op, call);
  expose();
  if (call != nullptr) {
    open_.enqueued_by(call->enter_ns, call->exit_ns);
    improve_closing(op, *call);
    count_call(op, *call);
  }
  add_to_run(op, call, !pieces.empty());
  shared_.host->finished(peer_, op.end_ns);
  if (op.end_ns >= last_end_ns_) {
    last_end_ns_ = op.end_ns;
    last_ = edge_of(op);
  }
  return true;
}

void DeviceAnalysis::expose() {
  for (const ExposedPiece& piece : sweep_.exposed()) {
    shared_.exposed->expose(piece.owner, piece.length_ns);
  }
}

void DeviceAnalysis::count_call(const model::DeviceActivity& op, const model::ApiCall& call) {
  if (op.kind == model::ActivityKind::kernel && op.end_ns - op.start_ns >= kClearKernel_ns) {
    ++result_.called_kernel_count;
    if (call.exit_ns >= op.end_ns) ++result_.awaited_kernel_count;
  }
  const std::int64_t call_ns = call.exit_ns - call.enter_ns;
  if (call_ns < kLongLaunch_ns || call.correlation == long_launch_ ||
      (call.role != model::ApiRole::launch && call.role != model::ApiRole::graph_launch)) {
    return;
  }
  long_launch_ = call.correlation;
  if (call.enter_ns < sweep_.first_ns() || call.exit_ns > op.start_ns ||
      open_.idle_until_now(call.enter_ns) > 0) {
    return;
  }
  ++result_.full_queue_count;
  result_.full_queue_ns += call_ns;
}

void DeviceAnalysis::add_to_run(const model::DeviceActivity& op, const model::ApiCall* call,
                                bool has_ended_gap) {
  if (runs_.is_between_runs() && !LaunchRuns::is_prompt(op.start_ns, call)) return;
  LaunchRuns::Ended ended;
  if (has_ended_gap) {
    const Gap& gap = open_.newest()->gap;
    ended = {open_.newest_number(), gap.length_ns(), gap.opener == Opener::blocked_in};
  }
  for (const std::uint64_t gap : runs_.add(op.start_ns, call, has_ended_gap ? &ended : nullptr)) {
    open_.mark_in_run(gap);
  }
}

void DeviceAnalysis::open_gap(const IdlePiece& piece, const model::DeviceActivity& op,
                              const model::ApiCall* call) {
  const model::ApiCall* closing = piece.is_closed_by_work ? call : nullptr;
  if (open_.is_full()) close_gap();
  OpenGap& open = open_.push({piece.start_ns, piece.end_ns}, closing != nullptr);
  open.gap.device = result_.device;
  open.clues.compute_before_ns = sweep_.total_ns(BusyKind::compute);
  newest_correlation_ = closing != nullptr ? closing->correlation : 0;
  is_newest_opened_by_work_ = piece.is_opened_by_work;
  if (closing == nullptr) return;
  open.gap.closing = site_of(*closing);
  if (piece.is_opened_by_work) name_opener(&open.gap, closing);
  result_.profiler_ns += look_around(op, *closing, &open);
}

// Micro gaps are too many to look around each, and too short to hold anything but launches; a wait
// is worth its name however short the gap.
std::int64_t DeviceAnalysis::look_around(const model::DeviceActivity& op,
                                         const model::ApiCall& closing, OpenGap* open) const {
  const Gap& gap = open->gap;
  Clues& clues = open->clues;
  clues.closing_role = closing.role;
  clues.is_examined = false;
  if (gap.length_ns() < kSizeClassLimits_ns[0] && !gap.blocking) return 0;
  const HostSide& host = *shared_.host;
  Surroundings around;
  around.opening = last_;
  around.closing = edge_of(op);
  host.cover(closing.thread, {gap.start_ns, gap.end_ns}, &around);
  if (gap.blocking) look_at_wait(gap, closing.thread, &around);
  open->gap.inside = around.sampled.stack;
  open->gap.workers = around.sampled.workers;
  examine(around, &shared_.host->frames(), gap, &clues);
  clues.is_after_stream_wait =
      closing.correlation != 0 && host.calls().is_after_stream_wait(closing.correlation);
  clues.has_producer = clues.is_after_stream_wait && host.has_producer(peer_, gap.end_ns);
  return around.profiler_ns;
}

void DeviceAnalysis::look_at_wait(const Gap& gap, model::ThreadId thread,
                                  Surroundings* around) const {
  const HostSide& host = *shared_.host;
  const model::ApiRole role = gap.blocking->role;
  if (role == model::ApiRole::alloc || role == model::ApiRole::free) {
    around->is_device_memory = host.is_device_memory(gap.blocking->api);
  }
  if (around->opening.kind != model::ActivityKind::memcpy) return;
  const model::ApiCall* opening = host.calls().find(around->opening.correlation);
  around->is_own_copy = opening != nullptr && opening->thread == thread;
}

void DeviceAnalysis::close_gap() {
  OpenGap& open = open_.pop();
  Gap& gap = open.gap;
  judge(open.clues, &shared_.host->frames(), &gap);
  const auto cause = static_cast<std::size_t>(gap.cause);
  if (gap.cause == Cause::loader_wait || gap.cause == Cause::inline_preprocess ||
      gap.cause == Cause::remote_read) {
    // A batch can be made while the computation before it runs, each moment of that once.
    gap.removable_ns = std::min(gap.removable_ns, open.clues.compute_before_ns - hidden_ns_[cause]);
    hidden_ns_[cause] += gap.removable_ns;
  }
  count_episode(gap);
  const bool is_warm_up = gap.end_ns <= shared_.host->warm_up_end_ns();
  shared_.totals->add(gap, is_warm_up, &result_);
}

void DeviceAnalysis::count_episode(const Gap& gap) {
  const auto cause = static_cast<std::size_t>(gap.cause);
  std::uint64_t& episodes = result_.episode_count[cause];
  if (episodes == 0 || gap.start_ns > episode_end_ns_[cause] + kEpisodePause_ns) ++episodes;
  episode_end_ns_[cause] = gap.end_ns;
}

void DeviceAnalysis::name_opener(Gap* gap, const model::ApiCall* closing) const {
  gap->opener = Opener::unknown;
  gap->blocking.reset();
  gap->saving_bound_ns.reset();
  if (closing->thread == 0) return;
  const CallTable::Blocking blocking =
      shared_.host->calls().blocking_at(closing->thread, gap->start_ns);
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
void DeviceAnalysis::improve_closing(const model::DeviceActivity& op, const model::ApiCall& call) {
  OpenGap* open = open_.newest();
  if (open == nullptr || open->gap.end_ns != op.start_ns ||
      newest_correlation_ == call.correlation) {
    return;
  }
  Gap& gap = open->gap;
  if (gap.closing && std::tie(gap.closing->enter_ns, newest_correlation_) <=
                         std::tie(call.enter_ns, call.correlation)) {
    return;
  }
  gap.closing = site_of(call);
  newest_correlation_ = call.correlation;
  open_.set_newest_split_known();
  if (is_newest_opened_by_work_) name_opener(&gap, &call);
  look_around(op, call, open);
}

DeviceIdleness DeviceAnalysis::finish(const model::RecordingInfo& info) {
  sweep_.finish();
  expose();
  for (const std::uint64_t gap : runs_.finish()) open_.mark_in_run(gap);
  while (!open_.is_empty()) close_gap();
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
