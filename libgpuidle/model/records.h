// SPDX-License-Identifier: Apache-2.0
//
// What can happen in a recording: the plain records that the recorder writes, importers make and
// the analysis reads. All times are nanoseconds of one clock per recording (for our own files the
// host's CLOCK_MONOTONIC, for foreign ones whatever the file counts from); all intervals are
// half-open [start, end). Ids index the tables of `model::Tables`; 0 always means "none".
#pragma once

#include <cstdint>

namespace gpuidle::model {

using StringId = std::uint32_t;  ///< Tables::strings(), 0 = ""
using KernelId = std::uint32_t;  ///< Tables::kernels(), 0 = none
using StackId = std::uint32_t;   ///< Tables::stacks(), 0 = no stack taken
using FrameId = std::uint32_t;   ///< Tables::frames(), 0 is not used
using ModuleId = std::uint32_t;  ///< Tables::modules(), 0 = unknown module
using ThreadId = std::uint32_t;  ///< Tables::threads(), 0 = unknown thread
using ApiId = std::uint32_t;     ///< Tables::apis(), 0 = unknown call

enum class ActivityKind : std::uint8_t {
  unknown = 0,
  kernel = 1,
  memcpy = 2,
  memset = 3,
  graph = 4,  ///< one launch of a whole CUDA graph where its nodes were not recorded one by one
};

enum class CopyKind : std::uint8_t {
  unknown = 0,
  host_to_device = 1,
  device_to_host = 2,
  device_to_device = 3,
  host_to_host = 4,
  peer = 5,
};

/// Kinds of memory that a copy reads or writes; the numbers are CUpti_ActivityMemoryKind's.
enum class MemoryKind : std::uint8_t {
  unknown = 0,
  pageable = 1,
  pinned = 2,
  device = 3,
  array = 4,
  managed = 5,
  device_static = 6,
  managed_static = 7,
};

/// Work that a device did. `end_ns >= start_ns` always holds: what violates it is counted as lost
/// before it becomes an activity.
struct DeviceActivity {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t bytes = 0;   ///< copied or set; 0 for kernels
  std::uint32_t device = 0;  ///< CUDA ordinal inside the process
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;  ///< of the host call that enqueued it; 0 = not known
  std::uint32_t graph = 0;        ///< CUDA graph id, 0 = not from a graph
  KernelId kernel = 0;
  StringId name = 0;  ///< importers' label for copies and sets, else 0
  ActivityKind kind = ActivityKind::unknown;
  CopyKind copy = CopyKind::unknown;
  MemoryKind source = MemoryKind::unknown;
  MemoryKind destination = MemoryKind::unknown;
  bool is_async = false;  ///< copies and sets: the call was an Async variant
};

/// What part a host call plays in feeding a device. Enqueueing roles come first.
enum class ApiRole : std::uint8_t {
  other = 0,
  launch = 1,         ///< enqueues a kernel
  graph_launch = 2,   ///< enqueues a whole graph
  copy = 3,           ///< enqueues a copy, by contract without waiting for it
  copy_blocking = 4,  ///< enqueues a copy and may wait for it
  set = 5,
  set_blocking = 6,
  host_function = 7,  ///< enqueues a call back into the host
  sync_blocking = 8,  ///< waits for the device
  alloc = 9,          ///< may synchronise implicitly
  free = 10,          ///< may synchronise implicitly
  module_load = 11,   ///< loads or compiles code, may synchronise
  graph_build = 12,   ///< instantiates or updates a graph
  event_wait = 13,    ///< makes a stream wait, not the host
};

/// True if the role puts work on a device.
constexpr bool enqueues_work(ApiRole role) {
  return role >= ApiRole::launch && role <= ApiRole::host_function;
}
/// True if the host may stand still in such a call until the device has caught up.
constexpr bool may_block(ApiRole role) {
  return role == ApiRole::copy_blocking || role == ApiRole::set_blocking ||
         role == ApiRole::sync_blocking || role == ApiRole::alloc || role == ApiRole::free ||
         role == ApiRole::module_load;
}

/// A call of the host into CUDA, outermost only (a runtime call's inner driver call is part of it).
struct ApiCall {
  std::int64_t enter_ns = 0;
  std::int64_t exit_ns = 0;
  std::uint32_t correlation = 0;  ///< equals DeviceActivity::correlation of what it enqueued
  std::int32_t result = 0;        ///< CUDA's return value, 0 = success
  ThreadId thread = 0;
  ApiId api = 0;
  StackId stack = 0;
  ApiRole role = ApiRole::other;
};

/// A mark of the program itself (public header, NVTX, framework annotation).
struct Marker {
  enum class Kind : std::uint8_t { instant = 0, range = 1, step = 2 };
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;  ///< == start_ns for instants
  StringId name = 0;
  ThreadId thread = 0;
  Kind kind = Kind::instant;
};

/// Time that profiling or the driver took and that belongs to no cause in the program.
struct Overhead {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  ThreadId thread = 0;
  StringId name = 0;         ///< e.g. "activity buffer flush"
  bool is_profiler = false;  ///< true: vanishes without profiling; false: the program's own cost
};

/// A span in which a device was not watched; its time is "not observed", neither busy nor idle.
struct Unobserved {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  StringId reason = 0;
};

/// An idle gap as the recorder saw it while the program ran. Analyses of a `full` recording
/// recompute gaps from the activities; the `gaps` level of detail keeps only these.
struct RecordedGap {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t closing_correlation = 0;
};

/// Why something that happened is not in the recording.
enum class LossReason : std::uint8_t {
  unknown = 0,
  ring_full = 1,           ///< host calls dropped: the drain thread fell behind
  cupti_dropped = 2,       ///< device records CUPTI itself gave up
  zero_timestamp = 3,      ///< start or end was 0
  reversed_timestamp = 4,  ///< end before start
  outside_session = 5,     ///< before the recording began or after it ended
  unknown_record = 6,      ///< a record kind or layout this version does not decode
  stack_truncated = 7,     ///< stack deeper than what is kept
  write_failed = 8,
  late_activity = 9,       ///< arrived after its time was closed; kept, but not in recorded gaps
  stack_unavailable = 10,  ///< a stack was wanted and could not be taken
  overlapping = 11,        ///< two records overlap in one in-order stream
};
inline constexpr int kLossReasonCount = 12;

}  // namespace gpuidle::model
