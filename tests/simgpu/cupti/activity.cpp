// SPDX-License-Identifier: Apache-2.0
// Enabled kinds, and the way of records to the client: queue, buffers, flush, worker thread.
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "cupti/state.h"
#include "device/background.h"
#include "device/settings.h"

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

// One client's way of records.
struct State {
  std::mutex queue_mutex;  // innermost: taken under the driver's device lock
  std::deque<Pending> queue;
  std::mutex delivery_mutex;  // held while client callbacks run; one thread fills buffers
  Buffer buffer;
  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
  std::atomic<SharedRequest> shared_request{nullptr};
  std::atomic<SharedComplete> shared_complete{nullptr};
  std::atomic<size_t> dropped{0};
  std::atomic<uint8_t> zeroed_buffers{0};
  std::atomic<uint8_t> kinds[kKinds] = {};

  bool has_callbacks() const {
    return request.load() != nullptr || shared_request.load() != nullptr;
  }
  // A peer copy is a record of a kind of its own that comes with the kind of all copies.
  bool takes(uint32_t kind) const {
    return kinds[kind] ||
           (kind == CUPTI_ACTIVITY_KIND_MEMCPY2 && kinds[CUPTI_ACTIVITY_KIND_MEMCPY]);
  }
};

State& state(int client = kProcessWide) {
  static auto* value = new State[kClients];  // leaked: the worker outlives static destructors
  return value[client];
}

std::atomic<bool> worker_runs{false};
// How many clients want a kind.
std::atomic<int> kinds[kKinds];
// API filters: 0 = not named, all of an enabled kind pass unless something is named.
std::atomic<uint8_t> api_named[3][kApis];
std::atomic<bool> api_filtered[3];
thread_local bool is_delivering = false;

size_t attribute_values[16] = {3200000, 8 << 20, 250, 25600, 500, 0, 3, 500, 0, 1, 16 << 20};

void complete_buffer(State& s) {
  Buffer full = s.buffer;
  s.buffer = Buffer();
  if (full.memory == nullptr) return;
  if (auto complete = s.complete.load()) complete(nullptr, 0, full.memory, full.bytes, full.used);
  if (auto complete = s.shared_complete.load()) {
    complete(full.memory, full.bytes, full.used, nullptr);
  }
}

bool need_buffer(State& s, size_t bytes) {
  Buffer& buffer = s.buffer;
  bool full = buffer.memory && (buffer.used + bytes > buffer.bytes ||
                                (buffer.max_records && buffer.records >= buffer.max_records));
  if (full) complete_buffer(s);
  if (buffer.memory) return true;
  auto request = s.request.load();
  auto shared_request = s.shared_request.load();
  if (request) request(&buffer.memory, &buffer.bytes, &buffer.max_records);
  if (shared_request) shared_request(&buffer.memory, &buffer.bytes, &buffer.max_records, nullptr);
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
  is_delivering = true;
  while (true) {
    timespec period = {0, kWorkerPeriodNs};
    nanosleep(&period, nullptr);
    for (int client = 0; client < kClients; ++client) {
      State& s = state(client);
      if (!s.has_callbacks()) continue;
      std::lock_guard<std::mutex> lock(s.delivery_mutex);
      deliver(s, false);
    }
  }
}

void start_worker() {
  if (!worker_runs.exchange(true)) simgpu::start_background_thread("simgpu-cupti", work);
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
  int64_t start = hub()->now_ns();
  for (int client = 0; client < kClients; ++client) {
    State& s = state(client);
    if (!s.has_callbacks()) continue;
    std::lock_guard<std::mutex> lock(s.delivery_mutex);
    is_delivering = true;
    deliver(s, (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
    complete_buffer(s);
    is_delivering = false;
  }
  record_overhead(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, start, hub()->now_ns());
  return CUPTI_SUCCESS;
}

// The calls that name no subscriber are closed while CUPTI is shared.
CUptiResult enable_process_wide(CUpti_ActivityKind kind) {
  if (is_shared()) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  return set_kind(kind, true, kProcessWide);
}

// A buffer of earlier callbacks goes back to its owner first.
void return_buffer(State& s) {
  if (is_delivering) return;
  std::lock_guard<std::mutex> lock(s.delivery_mutex);
  complete_buffer(s);
}

CUptiResult set_api(uint32_t domain, CUpti_CallbackId cbid, uint8_t enable) {
  if (cbid >= kApis) return CUPTI_ERROR_INVALID_PARAMETER;
  CUptiResult status =
      enable_process_wide(domain == CUPTI_CB_DOMAIN_DRIVER_API ? CUPTI_ACTIVITY_KIND_DRIVER
                                                               : CUPTI_ACTIVITY_KIND_RUNTIME);
  if (status != CUPTI_SUCCESS) return status;
  api_named[domain][cbid] = enable;
  api_filtered[domain] = true;
  return CUPTI_SUCCESS;
}

}  // namespace

CUptiResult set_kind(CUpti_ActivityKind kind, bool enable, int client) {
  if (kind <= 0 || kind >= kKinds || record_bytes(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  if (hub() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  if (state(client).kinds[kind].exchange(enable) != enable) kinds[kind] += enable ? 1 : -1;
  bool any = false;
  for (const auto& value : kinds) any = any || value != 0;
  set_has_activity(any);
  if (enable) start_worker();
  return CUPTI_SUCCESS;
}

void register_shared_callbacks(int client, SharedRequest request, SharedComplete complete) {
  State& s = state(client);
  return_buffer(s);
  s.shared_request = request;
  s.shared_complete = complete;
}

bool is_enabled(CUpti_ActivityKind kind) {
  return kinds[kind].load(std::memory_order_relaxed) != 0;
}

bool is_api_enabled(uint32_t domain, uint32_t cbid) {
  return domain < 3 && (!api_filtered[domain] || (cbid < kApis && api_named[domain][cbid]));
}

void queue_record(const void* record, size_t bytes, int64_t ready_ns) {
  static std::atomic<uint64_t> count{0};
  int64_t every = simgpu::fault("drop_every");
  bool is_dropped = every > 0 && ++count % static_cast<uint64_t>(every) == 0;
  uint32_t kind = 0;
  std::memcpy(&kind, record, sizeof kind);
  bytes = record_bytes(kind);  // an older release's are shorter than what was filled in
  Pending pending;
  pending.ready_ns = ready_ns;
  pending.bytes = static_cast<uint32_t>(bytes);
  std::memcpy(pending.data, record, bytes);
  for (int client = 0; client < kClients; ++client) {
    State& s = state(client);
    if (!s.takes(kind)) continue;
    if (is_dropped) {
      ++s.dropped;
      continue;
    }
    std::lock_guard<std::mutex> lock(s.queue_mutex);
    s.queue.push_back(pending);
  }
}

bool has_process_wide_activity() {
  for (const auto& value : state().kinds) {
    if (value) return true;
  }
  return false;
}

void drop_client(int client) {
  State& s = state(client);
  for (int kind = 1; kind < kKinds; ++kind) {
    if (s.kinds[kind]) set_kind(static_cast<CUpti_ActivityKind>(kind), false, client);
  }
  std::lock_guard<std::mutex> delivery_lock(s.delivery_mutex);
  complete_buffer(s);
  s.shared_request = nullptr;
  s.shared_complete = nullptr;
  std::lock_guard<std::mutex> queue_lock(s.queue_mutex);
  s.queue.clear();
}

uint64_t timestamp_ns() {
  // Records are stamped by a clock that nobody sets; where CLOCK_REALTIME is being set (up to 5 ms
  // each second), the two would drift apart.
  if (hub()) {
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
  if (simcupti::is_shared()) return result(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  auto& s = state();
  simcupti::return_buffer(s);
  s.request = funcBufferRequested;
  s.complete = funcBufferCompleted;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiActivityEnable)(CUpti_ActivityKind kind) {
  return result(simcupti::enable_process_wide(kind));
}

CUptiResult CUPTI(cuptiActivityEnableAndDump)(CUpti_ActivityKind kind) {
  CUptiResult status = simcupti::enable_process_wide(kind);
  if (status == CUPTI_SUCCESS) simcupti::dump_records(kind);
  return result(status);
}

CUptiResult CUPTI(cuptiActivityDisable)(CUpti_ActivityKind kind) {
  return result(simcupti::set_kind(kind, false, simcupti::kProcessWide));
}

CUptiResult CUPTI(cuptiActivityEnableContext)(CUcontext, CUpti_ActivityKind kind) {
  return result(simcupti::enable_process_wide(kind));
}

CUptiResult CUPTI(cuptiActivityDisableContext)(CUcontext, CUpti_ActivityKind kind) {
  return result(simcupti::set_kind(kind, false, simcupti::kProcessWide));
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
