// SPDX-License-Identifier: Apache-2.0
// Enabled kinds, and the way of records to the client: queue, buffers, flush, worker thread.
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "core/background.h"
#include "core/settings.h"
#include "cupti/state.h"

namespace simcupti {
namespace {

constexpr int kKinds = 64;
constexpr int kApis = 1024;
constexpr int64_t kMillisecondNs = 1'000'000;
// The worker's period: full buffers reach the client this late.
constexpr long kWorkerPeriodNs = 5 * kMillisecondNs;

struct Pending {
  int64_t ready_ns;
  uint32_t bytes;
  unsigned char data[sizeof(CUpti_ActivityKernel10)];
};

struct Buffer {
  uint8_t* memory = nullptr;
  size_t bytes = 0;
  size_t used = 0;
  size_t records = 0;
  size_t max_records = 0;
};

struct State {
  std::mutex queue_mutex;  // innermost: taken under the driver's device lock
  std::deque<Pending> queue;
  std::mutex delivery_mutex;  // held while client callbacks run; one thread fills buffers
  Buffer buffer;
  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
  std::atomic<size_t> dropped{0};
  std::atomic<bool> worker_runs{false};
  std::atomic<uint8_t> zeroed_buffers{0};
};

State& state() {
  static auto* value = new State;  // leaked: the worker outlives static destructors
  return *value;
}

std::atomic<uint8_t> kinds[kKinds];
// API filters: 0 = not named, all of an enabled kind pass unless something is named.
std::atomic<uint8_t> api_named[3][kApis];
std::atomic<bool> api_filtered[3];
thread_local bool is_delivering = false;

size_t attribute_values[16] = {3200000, 8 << 20, 250, 25600, 500, 0, 3, 500, 0, 1, 16 << 20};

void complete_buffer(State& s) {
  Buffer full = s.buffer;
  s.buffer = Buffer();
  if (full.memory == nullptr) return;
  auto complete = s.complete.load();
  if (complete) complete(nullptr, 0, full.memory, full.bytes, full.used);
}

bool need_buffer(State& s, size_t bytes) {
  Buffer& buffer = s.buffer;
  bool full = buffer.memory && (buffer.used + bytes > buffer.bytes ||
                                (buffer.max_records && buffer.records >= buffer.max_records));
  if (full) complete_buffer(s);
  if (buffer.memory) return true;
  auto request = s.request.load();
  if (request == nullptr) return false;
  request(&buffer.memory, &buffer.bytes, &buffer.max_records);
  if (buffer.memory == nullptr) return false;
  if (buffer.bytes < bytes) {
    complete_buffer(s);
    return false;
  }
  if (!s.zeroed_buffers) std::memset(buffer.memory, 0, buffer.bytes);
  return true;
}

void write_record(State& s, const Pending& record) {
  if (!need_buffer(s, record.bytes)) {
    ++s.dropped;
    return;
  }
  std::memcpy(s.buffer.memory + s.buffer.used, record.data, record.bytes);
  s.buffer.used += record.bytes;
  ++s.buffer.records;
}

// Moves finished records into buffers; with `force` all, those under way cut short.
void deliver(State& s, bool force) {
  std::deque<Pending> taken;
  {
    std::lock_guard<std::mutex> lock(s.queue_mutex);
    taken.swap(s.queue);
  }
  if (taken.empty()) return;
  int64_t now = hub()->now_ns();
  int64_t late = simgpu::fault("late_ms");
  TimestampConversion conversion;
  std::deque<Pending> rest;
  for (Pending& record : taken) {
    bool running = record.ready_ns > now;
    bool held = late > 0 && record.ready_ns + late * kMillisecondNs > now;
    if (!force && (running || held)) {
      rest.push_back(record);
      continue;
    }
    if (running) cut_running_record(record.data, now);
    conversion.apply(record.data);
    write_record(s, record);
  }
  if (rest.empty()) return;
  std::lock_guard<std::mutex> lock(s.queue_mutex);
  rest.insert(rest.end(), s.queue.begin(), s.queue.end());
  s.queue.swap(rest);
}

void work() {
  State& s = state();
  is_delivering = true;
  while (true) {
    timespec period = {0, kWorkerPeriodNs};
    nanosleep(&period, nullptr);
    if (s.request.load() == nullptr) continue;
    std::lock_guard<std::mutex> lock(s.delivery_mutex);
    deliver(s, false);
  }
}

void start_worker() {
  if (!state().worker_runs.exchange(true)) simgpu::start_background_thread("simgpu-cupti", work);
}

CUptiResult flush(uint32_t flag) {
  if (simgpu::fault("flush_hangs") > 0) {
    while (true) {
      timespec period = {1, 0};
      nanosleep(&period, nullptr);
    }
  }
  if (hub() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  if (is_delivering) return CUPTI_ERROR_INVALID_OPERATION;  // from inside a completion callback
  State& s = state();
  int64_t start = hub()->now_ns();
  {
    std::lock_guard<std::mutex> lock(s.delivery_mutex);
    is_delivering = true;
    deliver(s, (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
    complete_buffer(s);
    is_delivering = false;
  }
  record_overhead(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, start, hub()->now_ns());
  return CUPTI_SUCCESS;
}

CUptiResult set_kind(CUpti_ActivityKind kind, bool enable) {
  if (kind <= 0 || kind >= kKinds || record_bytes(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  if (hub() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  kinds[kind] = enable;
  bool any = false;
  for (const auto& value : kinds) any = any || value;
  set_has_activity(any);
  if (enable) start_worker();
  return CUPTI_SUCCESS;
}

CUptiResult set_api(uint32_t domain, CUpti_CallbackId cbid, uint8_t enable) {
  if (cbid >= kApis) return CUPTI_ERROR_INVALID_PARAMETER;
  api_named[domain][cbid] = enable;
  api_filtered[domain] = true;
  set_kind(domain == CUPTI_CB_DOMAIN_DRIVER_API ? CUPTI_ACTIVITY_KIND_DRIVER
                                                : CUPTI_ACTIVITY_KIND_RUNTIME,
           true);
  return CUPTI_SUCCESS;
}

}  // namespace

bool is_enabled(CUpti_ActivityKind kind) {
  return kinds[kind].load(std::memory_order_relaxed) != 0;
}

bool is_api_enabled(uint32_t domain, uint32_t cbid) {
  return domain < 3 && (!api_filtered[domain] || (cbid < kApis && api_named[domain][cbid]));
}

void queue_record(const void* record, size_t bytes, int64_t ready_ns) {
  static std::atomic<uint64_t> count{0};
  State& s = state();
  int64_t every = simgpu::fault("drop_every");
  if (every > 0 && ++count % static_cast<uint64_t>(every) == 0) {
    ++s.dropped;
    return;
  }
  Pending pending;
  pending.ready_ns = ready_ns;
  pending.bytes = static_cast<uint32_t>(bytes);
  std::memcpy(pending.data, record, bytes);
  std::lock_guard<std::mutex> lock(s.queue_mutex);
  s.queue.push_back(pending);
}

uint64_t timestamp_ns() {
  if (simgpu::settings().virtual_clock && hub()) {
    return static_cast<uint64_t>(hub()->now_ns() + hub()->realtime_offset_ns());
  }
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace simcupti

using simcupti::result;
using simcupti::state;

CUptiResult CUPTI(cuptiActivityRegisterCallbacks)(
    CUpti_BuffersCallbackRequestFunc funcBufferRequested,
    CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  if (!funcBufferRequested || !funcBufferCompleted) return result(CUPTI_ERROR_INVALID_PARAMETER);
  // A buffer of earlier callbacks goes back to its owner first.
  auto& s = state();
  if (!simcupti::is_delivering) {
    std::lock_guard<std::mutex> lock(s.delivery_mutex);
    simcupti::complete_buffer(s);
  }
  s.request = funcBufferRequested;
  s.complete = funcBufferCompleted;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiActivityEnable)(CUpti_ActivityKind kind) {
  return result(simcupti::set_kind(kind, true));
}

CUptiResult CUPTI(cuptiActivityEnableAndDump)(CUpti_ActivityKind kind) {
  CUptiResult status = simcupti::set_kind(kind, true);
  if (status == CUPTI_SUCCESS) simcupti::dump_records(kind);
  return result(status);
}

CUptiResult CUPTI(cuptiActivityDisable)(CUpti_ActivityKind kind) {
  return result(simcupti::set_kind(kind, false));
}

CUptiResult CUPTI(cuptiActivityEnableContext)(CUcontext, CUpti_ActivityKind kind) {
  return result(simcupti::set_kind(kind, true));
}

CUptiResult CUPTI(cuptiActivityDisableContext)(CUcontext, CUpti_ActivityKind kind) {
  return result(simcupti::set_kind(kind, false));
}

CUptiResult CUPTI(cuptiActivityEnableRuntimeApi)(CUpti_CallbackId cbid, uint8_t enable) {
  return result(simcupti::set_api(CUPTI_CB_DOMAIN_RUNTIME_API, cbid, enable));
}

CUptiResult CUPTI(cuptiActivityEnableDriverApi)(CUpti_CallbackId cbid, uint8_t enable) {
  return result(simcupti::set_api(CUPTI_CB_DOMAIN_DRIVER_API, cbid, enable));
}

CUptiResult CUPTI(cuptiActivityFlushAll)(uint32_t flag) { return result(simcupti::flush(flag)); }

CUptiResult CUPTI(cuptiActivityFlush)(CUcontext, uint32_t, uint32_t flag) {
  return result(simcupti::flush(flag));
}

// The worker's own period is short enough; a period never returns part-filled buffers.
CUptiResult CUPTI(cuptiActivityFlushPeriod)(uint32_t) { return CUPTI_SUCCESS; }

CUptiResult CUPTI(cuptiActivityGetNextRecord)(uint8_t* buffer, size_t validBufferSizeBytes,
                                              CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return result(CUPTI_ERROR_INVALID_PARAMETER);
  uint8_t* next = buffer;
  if (*record != nullptr) {
    size_t stride = simcupti::record_bytes((*record)->kind);
    if (stride == 0) return result(CUPTI_ERROR_INVALID_KIND);
    next = reinterpret_cast<uint8_t*>(*record) + stride;
  }
  if (next + sizeof(uint32_t) > buffer + validBufferSizeBytes) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  auto* found = reinterpret_cast<CUpti_Activity*>(next);
  if (simcupti::record_bytes(found->kind) == 0) return result(CUPTI_ERROR_INVALID_KIND);
  *record = found;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiActivityGetNumDroppedRecords)(CUcontext, uint32_t, size_t* dropped) {
  if (dropped == nullptr) return result(CUPTI_ERROR_INVALID_PARAMETER);
  *dropped = state().dropped.exchange(0);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiActivityGetAttribute)(CUpti_ActivityAttribute attr, size_t* valueSize,
                                             void* value) {
  if (attr < 0 || attr > 10 || !valueSize || !value) return result(CUPTI_ERROR_INVALID_PARAMETER);
  size_t stored = simcupti::attribute_values[attr];
  size_t bytes = *valueSize < sizeof stored ? *valueSize : sizeof stored;
  std::memcpy(value, &stored, bytes);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiActivitySetAttribute)(CUpti_ActivityAttribute attr, size_t* valueSize,
                                             void* value) {
  if (attr < 0 || attr > 10 || !valueSize || !value) return result(CUPTI_ERROR_INVALID_PARAMETER);
  size_t given = 0;
  std::memcpy(&given, value, *valueSize < sizeof given ? *valueSize : sizeof given);
  simcupti::attribute_values[attr] = given;
  if (attr == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
    state().zeroed_buffers = given != 0;
  }
  return CUPTI_SUCCESS;
}
