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

/// What a host thread did when it was looked at.
enum class ThreadActivity : std::uint8_t {
  unknown = 0,
  running = 1,   ///< on a processor
  runnable = 2,  ///< ready, and for most of the span without a processor
  waiting = 3,   ///< asleep in the kernel
  ended = 4,     ///< a child process that has ended and was not yet waited for
};

/// What a waiting thread waits for, as far as /proc tells. Of several, the one farthest away.
enum class WaitTarget : std::uint8_t {
  unknown = 0,
  lock = 1,              ///< another thread: mutex, condition, semaphore
  interpreter_lock = 2,  ///< Python's GIL
  sleep = 3,             ///< a time that it asked for
  child_process = 4,     ///< the end of a child process
  pipe = 5,
  local_socket = 6,     ///< its other end is on this machine
  external_socket = 7,  ///< its other end is another machine
  socket = 8,           ///< other end not known
  local_file = 9,
  network_file = 10,
  file = 11,        ///< on a file system that may be either: in user space, or not known
  device = 12,      ///< a character or block device: terminal, GPU
  event = 13,       ///< eventfd, timerfd, inotify, signalfd
  page_fault = 14,  ///< memory that has to be read in first
};

/// One look at a thread that feeds a device and was away from CUDA, or (`is_child_process`) at a
/// child of the recorded program. It stands for the span since the look before, or since the thread
/// left CUDA; the thread was looked at at `end_ns`. Counts are of the span, and not known for the
/// first span of an absence: nobody looked at them when it began.
struct ThreadSample {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t cpu_ns = 0;             ///< on a processor
  std::uint64_t run_queue_wait_ns = 0;  ///< ready, without a processor
  std::uint64_t throttled_ns = 0;       ///< the process's control group was out of its quota
  std::uint32_t major_faults = 0;       ///< page faults that had to read
  std::int32_t system_call = -1;        ///< x86-64's number; -1 = in none, or not known
  ThreadId thread = 0;                  ///< of a child process: its main thread
  StackId stack = 0;
  ThreadActivity activity = ThreadActivity::unknown;
  WaitTarget target = WaitTarget::unknown;
  bool is_child_process = false;
  bool has_counts = false;  ///< cpu_ns, run_queue_wait_ns, throttled_ns and major_faults are known
};

/// One allocation or one free of device memory, as a framework's allocator tells it.
struct MemoryEvent {
  std::int64_t start_ns = 0;
  std::int64_t bytes = 0;             ///< allocated; negative: freed
  std::uint64_t allocated_bytes = 0;  ///< live in the allocator after the event, if has_totals
  std::uint64_t reserved_bytes = 0;   ///< what it holds of the device then, cached blocks included
  std::uint32_t device = 0;
  bool has_totals = false;
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
  sample_dropped = 12,     ///< a sample of a stalled thread: the drain thread fell behind
  sample_moved = 13,       ///< a sample without stack: the thread went on while it was read
  sample_unanswered = 14,  ///< a sample without stack: the thread did not take the signal in time
};
inline constexpr int kLossReasonCount = 15;

}  // namespace gpuidle::model
