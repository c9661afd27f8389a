// SPDX-License-Identifier: Apache-2.0
// When work starts and ends. Work on a queue gets its start and end as soon as everything before
// it has an end; only a host function has an end that nobody knows before it ran. No thread is
// needed for kernels and copies: they are finished when the clock has passed their end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"

namespace simgpu {

struct Kernel;

/// A rectangular copy or fill, all strides in bytes.
struct Transfer {
  enum class Type : uint8_t { none, copy, set } type = Type::none;
  uint8_t element_bytes = 1;
  uint32_t value = 0;
  unsigned char* destination = nullptr;
  const unsigned char* source = nullptr;
  size_t width_bytes = 0;
  size_t height = 1;
  size_t depth = 1;
  size_t destination_pitch = 0;
  size_t source_pitch = 0;
  size_t destination_slice = 0;
  size_t source_slice = 0;

  uint64_t bytes() const { return uint64_t{width_bytes} * height * depth; }
};
void run_transfer(const Transfer& transfer);

/// First start and last end of the nodes of one graph launch.
struct GraphSpan {
  int64_t start_ns = INT64_MAX;
  int64_t end_ns = 0;
};

struct Work {
  Operation operation{};
  int64_t duration_ns = 0;
  int engine = -1;  // index into Device::engine_free_ns
  Transfer transfer;
  CUhostFn host_function = nullptr;
  void* host_argument = nullptr;
  Kernel* kernel = nullptr;

  // Filled by the scheduler.
  Stream* stream = nullptr;
  int64_t earliest_ns = 0;
  std::vector<CompletionPtr> pending;
  CompletionPtr done;
  std::shared_ptr<GraphSpan> span;
};

/// Queues work behind everything before it on the stream. The lock is held; data of work that can
/// be scheduled at once is moved by the caller, see submit().
/// Returns the point at which the work is complete.
Mark schedule(Stream* stream, Work&& work);

/// As schedule(), with explicit predecessors instead of the stream's tail (nodes of graphs).
Mark schedule_after(Stream* stream, const std::vector<Mark>& marks, int64_t gap_ns, Work&& work);

/// The point that work queued now on the stream would have to wait for.
void predecessors(Stream* stream, Work* work);

/// schedule() or, in a capture, a new graph node; takes the lock, moves data, and waits while the
/// queue is full.
CUresult submit(Stream* stream, Work&& work, Mark* mark);

/// Waits of the host; each writes a row of ground truth and tells the tool.
void synchronize_stream(Stream* stream);
void synchronize_event(Event* event);
void synchronize_context(Context* context, WaitKind kind, bool report);
void wait_for_copy(Stream* stream, const Mark& mark);

/// Waits, with the lock given up meanwhile, until the mark has an end.
void wait_resolved(DeviceLock* lock, const Mark& mark);

bool is_reached(const Mark& mark);
bool is_idle(Stream* stream);

CUresult record_event(Event* event, Stream* stream);
CUresult wait_event(Event* event, Stream* stream);

}  // namespace simgpu
