// SPDX-License-Identifier: Apache-2.0
//
// What is seen around one gap while the recording streams by, and what of it is kept until the gap
// has its verdict. Filled by the analysis of a device; read by the rules in verdict.cpp.
#pragma once

#include <cstdint>

#include "libgpuidle/analysis/cause.h"
#include "libgpuidle/analysis/frame_work.h"
#include "libgpuidle/model/records.h"

namespace gpuidle::analysis {

/// Copies of at most this size read or write a value, not data: a scalar read-back.
inline constexpr std::uint64_t kScalarBytes = 64;
/// Copies to the device of at most this size do not make the host wait, even from pageable memory
/// (CUDA programming guide), and are small for the copy engine.
inline constexpr std::uint64_t kSmallCopyBytes = 64 * 1024;

/// The operation at one edge of a gap, as far as the rules ask.
struct EdgeOperation {
  model::ActivityKind kind = model::ActivityKind::unknown;
  model::CopyKind copy = model::CopyKind::unknown;
  model::MemoryKind source = model::MemoryKind::unknown;
  std::uint64_t bytes = 0;
  std::uint32_t correlation = 0;

  bool is_copy(model::CopyKind of) const {
    return kind == model::ActivityKind::memcpy && copy == of;
  }
};

/// What samples of the closing thread, and of child processes, say about the time inside a gap.
struct SampledTime {
  std::int64_t total_ns = 0;
  std::int64_t kept_off_ns = 0;  ///< ready without a processor, or waiting for a thread or process
  std::int64_t remote_ns = 0;    ///< waiting for a file on the network
  std::int64_t external_ns = 0;  ///< waiting for another machine
  model::StackId stack = 0;      ///< of the function that covers most
  WorkerState workers = WorkerState::unknown;
};

/// All that is looked at when a gap closes; gone a moment later.
struct Surroundings {
  EdgeOperation opening;          ///< ended when the gap began
  EdgeOperation closing;          ///< started when it ended
  bool is_own_copy = false;       ///< the opening operation is a copy of the blocked thread's
  bool is_device_memory = false;  ///< an alloc or free call was about memory of the device
  // Covered time inside the gap, in ns.
  std::int64_t profiler_ns = 0;  ///< overheads that vanish without a profiler
  std::int64_t driver_ns = 0;    ///< the driver's loading and compiling
  std::int64_t named_ns = 0;     ///< markers or samples of the closing thread that name a work
  HostWork named_work = HostWork::other;
  std::int64_t alloc_ns = 0, load_ns = 0, wait_ns = 0;  ///< calls of the closing thread by role
  SampledTime sampled;
};

/// What of that the verdict needs once the split is final. Thousands of gaps wait for that, so this
/// is small.
struct Clues {
  std::int64_t compute_before_ns = 0;  ///< computation of this device before the gap
  bool is_in_run = false;    ///< part of a run that the host's launches paced: see LaunchRuns
  bool is_examined = false;  ///< false: a micro gap; but for the two above nothing is known
  model::ApiRole closing_role = model::ApiRole::other;
  Cause blocked = Cause::unknown;         ///< what the wait that opened the gap is an instance of
  Cause closing_copy = Cause::unknown;    ///< the same for a large copy that ended it
  HostWork named_work = HostWork::other;  ///< a marker's, if it covers half of the gap
  bool is_after_stream_wait = false;      ///< a stream was made to wait before the closing call
  bool has_producer = false;              ///< another device finished something just then
  bool is_between_small_copies = false;   ///< two small copies to the device are the edges
  bool is_device_memory = false;
  // Calls and overheads that cover half of the gap.
  bool is_profiling = false, is_loading = false, is_allocating = false, is_waiting = false;
  // Samples that cover half of the gap.
  bool is_sampled = false, is_kept_off = false, is_remote = false, is_external = false;
};

}  // namespace gpuidle::analysis
