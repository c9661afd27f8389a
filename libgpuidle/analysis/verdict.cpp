// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/verdict.h"

#include <algorithm>
#include <optional>

#include "libgpuidle/analysis/launch_runs.h"

namespace gpuidle::analysis {
namespace {

using model::ApiRole;
using model::CopyKind;

// Longer than what a device needs between two queued operations; shorter gaps are never blamed on
// what the second one may have waited for.
constexpr std::int64_t kLatency_ns = 30'000;
// Launch calls take 5 to 20 us. One that holds a gap of this length open did something else as
// well.
constexpr std::int64_t kSlowLaunch_ns = 1'000'000;

// Copies further apart than this are not one burst.
constexpr std::int64_t kNearCopies_ns = 1'000'000;

struct Verdict {
  Cause cause;
  Grade grade;
};

// Half of the gap is enough: at most one reason has that much, ties apart.
bool holds(std::int64_t part_ns, const Gap& gap) { return 2 * part_ns >= gap.length_ns(); }

// Work that explains a gap by its name, wherever the name was found.
std::optional<Cause> named_cause(HostWork work) {
  switch (work) {
    case HostWork::loader_wait:
      return Cause::loader_wait;
    case HostWork::inline_preprocess:
      return Cause::inline_preprocess;
    case HostWork::checkpoint:
      return Cause::checkpoint_sync;
    case HostWork::upload:
      return Cause::result_upload;
    case HostWork::metrics:
      return Cause::host_metrics;
    case HostWork::garbage:
      return Cause::host_gc;
    case HostWork::compile:
      return Cause::jit_compile;
    case HostWork::fetch:
      return Cause::external_fetch;
    default:
      return std::nullopt;
  }
}

// A wait for a copy is named after the copy, however small: that the host waits for it at all is
// what costs. Other copies give the wait no name of their own.
Cause awaited_copy_cause(const EdgeOperation& copy, Cause otherwise) {
  if (copy.is_copy(CopyKind::device_to_host)) {
    return copy.bytes <= kScalarBytes ? Cause::scalar_read : Cause::d2h_copy;
  }
  if (copy.is_copy(CopyKind::host_to_device)) {
    return copy.source == model::MemoryKind::pageable ? Cause::h2d_pageable : Cause::h2d_blocking;
  }
  return otherwise;
}

Cause synchronised_cause(const Surroundings& around, HostWork work) {
  if (work == HostWork::explicit_sync) return Cause::explicit_sync;
  const Cause named = work == HostWork::scalar_read ? Cause::scalar_read : Cause::explicit_sync;
  return around.is_own_copy ? awaited_copy_cause(around.opening, named) : named;
}

Cause blocked_cause(const Surroundings& around, HostWork work, const Gap& gap) {
  switch (gap.blocking->role) {
    case ApiRole::sync_blocking:
      return synchronised_cause(around, work);
    case ApiRole::alloc:
    case ApiRole::free:
      return around.is_device_memory || work == HostWork::alloc_flush ? Cause::alloc_churn
                                                                      : Cause::implicit_sync;
    case ApiRole::module_load:
      return Cause::jit_compile;
    case ApiRole::copy:
    case ApiRole::copy_blocking:
      return awaited_copy_cause(
          around.closing.correlation == gap.blocking->correlation ? around.closing : around.opening,
          Cause::implicit_sync);
    default:
      return Cause::implicit_sync;
  }
}

bool is_between_small_copies(const Surroundings& around, const Gap& gap) {
  const auto is_small = [](const EdgeOperation& op) {
    return op.is_copy(CopyKind::host_to_device) && op.bytes < kSmallCopyBytes;
  };
  return gap.length_ns() < kNearCopies_ns && is_small(around.opening) && is_small(around.closing);
}

Verdict queued_verdict(const Clues& clues, const Gap& gap) {
  const bool is_short = gap.length_ns() < kLatency_ns;
  if (clues.is_examined) {
    if (clues.is_loading) return {Cause::jit_compile, Grade::a};
    if (clues.is_after_stream_wait && clues.has_producer) return {Cause::stream_wait, Grade::b};
    if (clues.is_after_stream_wait && !is_short) return {Cause::stream_wait, Grade::c};
  }
  return is_short ? Verdict{Cause::launch_latency, Grade::b} : Verdict{Cause::unknown, Grade::c};
}

// A wait for data that ends in a read over the network is named after that.
Cause read_cause(Cause cause, const Clues& clues, const Gap& gap) {
  if (cause != Cause::loader_wait && cause != Cause::inline_preprocess) return cause;
  const bool is_remote = clues.is_remote || clues.is_external ||
                         (cause == Cause::loader_wait && gap.workers == WorkerState::remote);
  return is_remote ? Cause::remote_read : cause;
}

// What a name at an edge of the gap, or around the time inside it, tells.
std::optional<Verdict> named_verdict(const Clues& clues, FrameWork* frames, const Gap& gap) {
  if (clues.is_examined) {
    if (const auto cause = named_cause(clues.named_work)) {
      return Verdict{read_cause(*cause, clues, gap), Grade::a};
    }
    if (clues.is_external && !gap.blocking) return Verdict{Cause::external_fetch, Grade::b};
    if (clues.is_remote && !gap.blocking) return Verdict{Cause::remote_read, Grade::a};
  }
  const HostWork closing = frames->of_stack(gap.closing->stack).work;
  if (!gap.blocking) {
    const auto cause = named_cause(closing);
    return cause ? std::optional<Verdict>({*cause, Grade::c}) : std::nullopt;
  }
  // Metrics that wait for a value are cured by not waiting.
  const HostWork opening = frames->of_stack(gap.blocking->stack).work;
  const auto cause = opening == HostWork::metrics ? std::nullopt : named_cause(opening);
  if (!cause) return std::nullopt;
  return Verdict{*cause, opening == closing ? Grade::b : Grade::c};
}

// Calls that took their time while the device had nothing to do.
std::optional<Verdict> call_verdict(const Clues& clues, const Gap& gap) {
  if (clues.is_loading) return Verdict{Cause::jit_compile, Grade::a};
  if (clues.is_allocating) {
    return Verdict{clues.is_device_memory ? Cause::alloc_churn : Cause::implicit_sync, Grade::a};
  }
  if (clues.is_waiting && !gap.blocking && holds(gap.split.host_ns, gap)) {
    return Verdict{Cause::explicit_sync, Grade::a};
  }
  return std::nullopt;
}

Verdict call_time_verdict(const Clues& clues, const Gap& gap) {
  if (clues.is_examined && clues.closing_copy != Cause::unknown) {
    return {clues.closing_copy, Grade::a};
  }
  if (clues.closing_role == ApiRole::launch && gap.length_ns() >= kSlowLaunch_ns) {
    return {Cause::jit_compile, Grade::c};
  }
  return {Cause::launch_bound, Grade::b};
}

Verdict host_verdict(const Clues& clues, FrameWork* frames, const Gap& gap) {
  if (clues.is_examined && clues.is_kept_off) return {Cause::descheduled, Grade::a};
  if (clues.is_examined && clues.is_sampled && gap.inside != 0) {
    return {frames->of_stack(gap.inside).has_python ? Cause::host_python : Cause::host_native,
            Grade::a};
  }
  // Eager programs leave such gaps between their operators, too few in a row to make a run.
  if (clues.closing_role == ApiRole::launch && gap.length_ns() < LaunchRuns::kLongestGap_ns) {
    return {Cause::launch_bound, Grade::c};
  }
  const StackWork stack = frames->of_stack(gap.closing->stack);
  if (stack.has_python) return {Cause::host_python, Grade::c};
  return {stack.has_frames ? Cause::host_native : Cause::unknown, Grade::c};
}

Verdict verdict_of(const Clues& clues, FrameWork* frames, const Gap& gap) {
  if (!gap.closing || holds(gap.split.unknown_ns, gap)) return {Cause::unknown, Grade::c};
  if (clues.is_examined && clues.is_profiling) return {Cause::profiler_overhead, Grade::a};
  if (holds(gap.split.device_ns, gap)) return queued_verdict(clues, gap);
  if (clues.is_in_run && !clues.is_examined) return {Cause::launch_bound, Grade::b};
  if (const auto named = named_verdict(clues, frames, gap)) return *named;
  if (clues.is_examined) {
    if (const auto called = call_verdict(clues, gap)) return *called;
    if (gap.blocking) {
      const bool is_covering = holds(gap.blocking->exit_ns - gap.start_ns, gap);
      return {clues.blocked, is_covering ? Grade::a : Grade::b};
    }
    if (clues.is_between_small_copies) return {Cause::h2d_fragmented, Grade::b};
  }
  if (clues.is_in_run) return {Cause::launch_bound, Grade::b};
  if (holds(gap.split.call_ns, gap)) return call_time_verdict(clues, gap);
  if (clues.closing_role == ApiRole::graph_launch && holds(gap.split.host_ns, gap)) {
    return {Cause::replay_gap, Grade::b};
  }
  if (holds(gap.split.host_ns + gap.split.call_ns, gap)) return host_verdict(clues, frames, gap);
  return {Cause::mixed, Grade::c};
}

// What the host did during the gap is why it is there; else the calls at its edges are.
bool is_of_host(Cause cause) {
  switch (cause) {
    case Cause::loader_wait:
    case Cause::inline_preprocess:
    case Cause::remote_read:
    case Cause::external_fetch:
    case Cause::result_upload:
    case Cause::checkpoint_sync:
    case Cause::host_gc:
    case Cause::host_metrics:
    case Cause::host_python:
    case Cause::host_native:
    case Cause::descheduled:
    case Cause::jit_compile:
    case Cause::replay_gap:
      return true;
    default:
      return false;
  }
}

std::int64_t removable_of(const Gap& gap) {
  switch (gap.cause) {
    case Cause::unknown:
    case Cause::mixed:
    case Cause::profiler_overhead:
      return 0;
    case Cause::stream_wait:
    case Cause::launch_latency:
      return gap.split.device_ns;
    case Cause::launch_bound:
    case Cause::replay_gap:
    case Cause::host_python:
    case Cause::host_native:
    case Cause::host_metrics:
    case Cause::host_gc:
    case Cause::descheduled:
    case Cause::jit_compile:
      return gap.split.host_ns + gap.split.call_ns;
    case Cause::scalar_read:
    case Cause::explicit_sync:
    case Cause::d2h_copy:
    case Cause::implicit_sync:
    case Cause::alloc_churn:
    case Cause::h2d_pageable:
    case Cause::h2d_blocking:
      return gap.saving_bound_ns.value_or(gap.length_ns());
    default:
      return gap.length_ns();
  }
}

}  // namespace

void examine(const Surroundings& around, FrameWork* frames, const Gap& gap, Clues* clues) {
  clues->is_examined = true;
  clues->blocked = gap.blocking
                       ? blocked_cause(around, frames->of_stack(gap.blocking->stack).work, gap)
                       : Cause::unknown;
  clues->closing_copy =
      around.closing.is_copy(CopyKind::host_to_device) && around.closing.bytes > kSmallCopyBytes
          ? awaited_copy_cause(around.closing, Cause::unknown)
          : Cause::unknown;
  clues->named_work = holds(around.named_ns, gap) ? around.named_work : HostWork::other;
  clues->is_between_small_copies = is_between_small_copies(around, gap);
  clues->is_device_memory = around.is_device_memory;
  clues->is_profiling = holds(around.profiler_ns, gap);
  clues->is_loading = holds(around.load_ns + around.driver_ns, gap);
  clues->is_allocating = holds(around.alloc_ns, gap);
  clues->is_waiting = holds(around.wait_ns, gap);
  clues->is_sampled = holds(around.sampled.total_ns, gap);
  clues->is_kept_off = holds(around.sampled.kept_off_ns, gap);
  clues->is_remote = holds(around.sampled.remote_ns, gap);
  clues->is_external = holds(around.sampled.external_ns, gap);
}

void judge(const Clues& clues, FrameWork* frames, Gap* gap) {
  const Verdict verdict = verdict_of(clues, frames, *gap);
  gap->cause = verdict.cause;
  gap->grade = verdict.grade;
  if (gap->inside != 0 && !is_of_host(gap->cause)) gap->inside = 0;
  gap->removable_ns = std::min(gap->length_ns(), removable_of(*gap));
}

}  // namespace gpuidle::analysis
