// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device/clock.h"
#include "device/graph.h"
#include "device/schedule.h"
#include "device/settings.h"
#include "device/timeline.h"

namespace simgpu {
namespace {

// Ids as profilers know them: the default stream of a context is 7, created ones count from 13.
constexpr uint32_t kLegacyStreamId = 7;
constexpr uint32_t kFirstStreamId = 13;

std::vector<Device*>* devices = nullptr;
std::vector<Context*>* contexts = nullptr;
std::atomic<bool> is_initialized{false};
std::atomic<bool> is_forked_child{false};
uint32_t next_stream_id = kFirstStreamId;
uint32_t next_event_id = 1;

// Objects return to these lists and not to the heap: a stale handle then meets a wrong magic
// number and gives an error, as with the real driver, and not a crash.
std::vector<Stream*>* free_streams = new std::vector<Stream*>;
std::vector<Event*>* free_events = new std::vector<Event*>;

void tell_tool(ResourceEvent event, Context* context, Stream* stream) {
  if (const Tool* tool = hub.tool.load(std::memory_order_acquire)) {
    tool->resource(event, reinterpret_cast<CUctx_st*>(context),
                   reinterpret_cast<CUstream_st*>(stream));
  }
}

void load_injection() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == 0) return;
  void* library = dlopen(path, RTLD_NOW);
  auto start =
      library ? reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection")) : nullptr;
  if (start == nullptr) {
    std::fprintf(stderr, "simgpu: CUDA_INJECTION64_PATH ignored: %s\n", dlerror());
    return;
  }
  if (start() != 1) std::fprintf(stderr, "simgpu: InitializeInjection did not return 1\n");
}

}  // namespace

std::mutex& device_lock() {
  static std::mutex mutex;  // its destructor is trivial
  return mutex;
}

ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

bool initialized() {
  return is_initialized.load(std::memory_order_acquire) &&
         !is_forked_child.load(std::memory_order_relaxed);
}

CUresult initialize() {
  if (is_forked_child) return CUDA_ERROR_NOT_INITIALIZED;
  if (is_initialized) return CUDA_SUCCESS;
  if (int64_t code = fault("cuinit"); code > 1) return static_cast<CUresult>(code);
  {
    DeviceLock lock(device_lock());
    if (is_initialized) return CUDA_SUCCESS;
    announce();
    open_timeline();
    devices = new std::vector<Device*>;
    contexts = new std::vector<Context*>;
    for (int i = 0; i < settings().devices; ++i) {
      devices->push_back(new Device);
      devices->back()->ordinal = i;
    }
    pthread_atfork(nullptr, nullptr, [] { is_forked_child = true; });
    is_initialized.store(true, std::memory_order_release);
  }
  load_injection();
  tell_tool(ResourceEvent::init_finished, nullptr, nullptr);
  return CUDA_SUCCESS;
}

int device_count() { return initialized() ? static_cast<int>(devices->size()) : 0; }

Device* device_at(int ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return nullptr;
  return (*devices)[static_cast<size_t>(ordinal)];
}

Context* create_context(Device* device, bool primary, unsigned flags) {
  auto* context = new Context;
  {
    DeviceLock lock(device_lock());
    context->device = device;
    context->is_primary = primary;
    context->flags = flags;
    context->legacy_stream = new Stream;
    context->legacy_stream->context = context;
    context->legacy_stream->legacy = true;
    context->legacy_stream->id = kLegacyStreamId;
    contexts->push_back(context);
    context->id = static_cast<uint32_t>(contexts->size());
  }
  tell_tool(ResourceEvent::context_created, context, nullptr);
  return context;
}

void destroy_context(Context* context) {
  tell_tool(ResourceEvent::context_destroyed, context, nullptr);
  synchronize_context(context, WaitKind::context, false);
  DeviceLock lock(device_lock());
  for (Stream* stream : context->streams) stream->magic = 0;
  context->streams.clear();
  context->destroyed = true;
}

Context* to_context(CUcontext handle) {
  auto* context = reinterpret_cast<Context*>(handle);
  return context && context->magic == kContextMagic && !context->destroyed ? context : nullptr;
}

Context* current_context() {
  ThreadState& state = thread_state();
  return state.depth > 0 ? state.stack[state.depth - 1] : nullptr;
}

Stream* create_stream(Context* context, unsigned flags, int priority) {
  Stream* stream;
  {
    DeviceLock lock(device_lock());
    if (free_streams->empty()) {
      stream = new Stream;
    } else {
      stream = free_streams->back();
      free_streams->pop_back();
      *stream = Stream();
    }
    stream->id = next_stream_id++;
    stream->context = context;
    stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    stream->flags = flags;
    stream->priority = priority;
    context->streams.push_back(stream);
  }
  tell_tool(ResourceEvent::stream_created, context, stream);
  return stream;
}

void destroy_stream(Stream* stream) {
  tell_tool(ResourceEvent::stream_destroyed, stream->context, stream);
  DeviceLock lock(device_lock());
  auto& list = stream->context->streams;
  list.erase(std::remove(list.begin(), list.end(), stream), list.end());
  stream->magic = 0;
  // Work with an open end still points at the stream; such a stream is left alone.
  if (stream->tail.resolved()) free_streams->push_back(stream);
}

Stream* stream_in(Context* context, CUstream handle, bool per_thread) {
  if (handle == nullptr) handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) return context->legacy_stream;
  if (handle == CU_STREAM_PER_THREAD) {
    ThreadState& state = thread_state();
    for (auto& entry : state.per_thread) {
      if (entry.context == context && entry.stream->magic == kStreamMagic) return entry.stream;
    }
    Stream* stream = create_stream(context, 0, 0);
    for (auto& entry : state.per_thread) {
      if (entry.context != nullptr && !entry.context->destroyed) continue;
      entry = {context, stream};
      break;
    }
    return stream;
  }
  auto* stream = reinterpret_cast<Stream*>(handle);
  return stream->magic == kStreamMagic ? stream : nullptr;
}

CUresult to_stream(CUstream handle, Stream** stream) {
  if (!initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  Context* context = current_context();
  if (context == nullptr || context->destroyed) {
    return context ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
  }
  *stream = stream_in(context, handle, thread_state().per_thread_default);
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

Event* create_event(Context* context, unsigned flags) {
  DeviceLock lock(device_lock());
  Event* event;
  if (free_events->empty()) {
    event = new Event;
  } else {
    event = free_events->back();
    free_events->pop_back();
    *event = Event();
  }
  event->id = next_event_id++;
  event->context = context;
  event->flags = flags;
  return event;
}

void destroy_event(Event* event) {
  DeviceLock lock(device_lock());
  event->magic = 0;
  free_events->push_back(event);
}

Event* to_event(CUevent handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  return event && event->magic == kEventMagic ? event : nullptr;
}

unsigned list_contexts(ContextSummary* list, unsigned capacity) {
  if (!initialized()) return 0;
  DeviceLock lock(device_lock());
  unsigned count = 0;
  for (Context* context : *contexts) {
    if (context->destroyed || count == capacity) continue;
    list[count++] = {context->id, static_cast<uint32_t>(context->device->ordinal), kLegacyStreamId};
  }
  return count;
}

bool summarize_device(int ordinal, DeviceSummary* summary) {
  if (device_at(ordinal) == nullptr) return false;
  std::snprintf(summary->name, sizeof summary->name, "Simulated CUDA Device");
  for (int i = 0; i < 16; ++i) summary->uuid[i] = static_cast<unsigned char>(0x51 + i);
  summary->uuid[15] = static_cast<unsigned char>(ordinal);
  summary->memory_bytes = settings().memory_bytes;
  summary->major = 9;
  summary->minor = 0;
  summary->multiprocessors = 16;
  return true;
}

}  // namespace simgpu
