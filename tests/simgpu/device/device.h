// SPDX-License-Identifier: Apache-2.0
// Devices, contexts, streams and events of the simulated driver, and the state of each thread.
// The schedule of work on them is schedule.h. Everything here is guarded by device_lock() and
// never destroyed: programs use CUDA from static destructors and at exit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cuda_api.h"
#include "device/tool.h"

namespace simgpu {

struct Context;
struct Capture;
struct GraphNode;
struct MemoryPool;

using DeviceLock = std::unique_lock<std::mutex>;
std::mutex& device_lock();

/// Set once a piece of work whose end was unknown has an end.
struct Completion {
  bool resolved = false;
  int64_t end_ns = 0;
};
using CompletionPtr = std::shared_ptr<Completion>;

/// A point in a queue: reached at `time_ns`, and not before `pending` (if any) is complete.
struct Mark {
  int64_t time_ns = 0;
  CompletionPtr pending;

  bool resolved() const { return !pending || pending->resolved; }
  int64_t end_ns() const {
    return pending && pending->end_ns > time_ns ? pending->end_ns : time_ns;
  }
};

constexpr uint32_t kStreamMagic = 0x53545245;
constexpr uint32_t kEventMagic = 0x4556454e;
constexpr uint32_t kContextMagic = 0x43545854;

struct Stream {
  uint32_t magic = kStreamMagic;
  uint32_t id = 0;
  Context* context = nullptr;
  bool legacy = false;
  bool blocking = true;
  unsigned flags = 0;
  int priority = 0;
  Mark tail;
  std::vector<int64_t> ring;  // ends of the last queue_depth operations
  size_t ring_at = 0;
  Capture* capture = nullptr;
  std::vector<GraphNode*> capture_tips;
};

struct Event {
  uint32_t magic = kEventMagic;
  uint32_t id = 0;
  Context* context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  uint64_t sequence = 0;
  Stream* stream = nullptr;
  Mark mark;
  Capture* capture = nullptr;
  std::vector<GraphNode*> capture_tips;
};

struct Device {
  int ordinal = 0;
  uint64_t used_bytes = 0;
  Context* primary = nullptr;
  int primary_uses = 0;
  unsigned primary_flags = 0;
  int64_t engine_free_ns[2] = {0, 0};  // host to device, device to host
  MemoryPool* default_pool = nullptr;
  MemoryPool* current_pool = nullptr;
};

struct Context {
  uint32_t magic = kContextMagic;
  uint32_t id = 0;
  Device* device = nullptr;
  bool is_primary = false;
  bool destroyed = false;
  unsigned flags = 0;
  Stream* legacy_stream = nullptr;
  std::vector<Stream*> streams;  // without the legacy one
  int64_t blocking_end_ns = 0;   // latest end on any blocking stream
  int64_t all_end_ns = 0;        // latest end on any stream
  unsigned captures = 0;
};

/// What a thread carries; plain data, so that it needs no destructor at thread exit.
struct ThreadState {
  static constexpr int kDepth = 16;
  Context* stack[kDepth];
  int depth;
  struct {
    Context* context;
    Stream* stream;
  } per_thread[kDepth];
  uint32_t call_depth;
  uint32_t correlation;
  uint32_t thread_id;
  bool per_thread_default;
  CUstreamCaptureMode capture_mode;
};
ThreadState& thread_state();

/// While alive, stream 0 means this thread's stream: body of the _ptsz and _ptds variants.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream() : before_(thread_state().per_thread_default) {
    thread_state().per_thread_default = true;
  }
  ~PerThreadDefaultStream() { thread_state().per_thread_default = before_; }

 private:
  bool before_;
};

/// 0 before cuInit; afterwards the devices.
bool initialized();
CUresult initialize();
Device* device_at(int ordinal);  // null if there is none such
int device_count();

Context* create_context(Device* device, bool primary, unsigned flags);
void destroy_context(Context* context);
Context* to_context(CUcontext handle);
Context* current_context();  // null if none

/// Resolves a stream handle (0, legacy, per-thread, created) in the current context.
CUresult to_stream(CUstream handle, Stream** stream);
Stream* stream_in(Context* context, CUstream handle, bool per_thread);
Stream* create_stream(Context* context, unsigned flags, int priority);
void destroy_stream(Stream* stream);

Event* create_event(Context* context, unsigned flags);
void destroy_event(Event* event);
Event* to_event(CUevent handle);

/// Names of the contexts that live, for tools that attach late.
unsigned list_contexts(ContextSummary* list, unsigned capacity);
bool summarize_device(int ordinal, DeviceSummary* summary);

extern Hub hub;
inline Hub* driver_hub() { return &hub; }

}  // namespace simgpu
