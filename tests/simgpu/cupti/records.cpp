// SPDX-License-Identifier: Apache-2.0
// Activity records of the layouts of the present header, made from what the driver tells.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cupti/release.h"
#include "cupti/state.h"
#include "device/settings.h"

namespace simcupti {
namespace {

using simgpu::MemoryKind;
using simgpu::Operation;
using simgpu::OperationKind;

// Every Nth record with times is spoiled; each fault counts for itself.
bool is_struck(const char* name, std::atomic<uint64_t>* counter) {
  int64_t every = simgpu::fault(name);
  return every > 0 && ++*counter % static_cast<uint64_t>(every) == 0;
}

uint64_t to_timestamp(int64_t device_ns) {
  return static_cast<uint64_t>(device_ns + hub()->realtime_offset_ns());
}

template <typename Record>
void set_times(Record* record, int64_t start_ns, int64_t end_ns) {
  record->start = to_timestamp(start_ns);
  record->end = to_timestamp(end_ns);
  static std::atomic<uint64_t> zeros{0};
  static std::atomic<uint64_t> reversals{0};
  if (is_struck("zero_timestamps", &zeros)) record->start = record->end = 0;
  if (is_struck("reversed_timestamps", &reversals)) {
    uint64_t start = record->start;  // the fields are packed: no references to them
    record->start = record->end;
    record->end = start;
  }
}

template <typename Record>
void queue(const Record& record, int64_t end_ns) {
  queue_record(&record, sizeof record, end_ns);
}

uint8_t copy_kind(const Operation& o) {
  auto on_host = [](MemoryKind kind) {
    return kind == MemoryKind::pageable || kind == MemoryKind::pinned;
  };
  if (on_host(o.source)) {
    return on_host(o.destination) ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOH
                                  : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  }
  return on_host(o.destination) ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
}

// Fields that all records of device work have under one name.
template <typename Record>
Record device_record(CUpti_ActivityKind kind, const Operation& o) {
  Record record{};
  record.kind = kind;
  record.deviceId = o.device;
  record.contextId = o.context;
  record.streamId = o.stream;
  record.correlationId = o.correlation;
  set_times(&record, o.start_ns, o.end_ns);
  return record;
}

void kernel(CUpti_ActivityKind kind, const Operation& o) {
  static std::atomic<int64_t> next_grid{1};
  auto record = device_record<CUpti_ActivityKernel10>(kind, o);
  record.registersPerThread = static_cast<uint16_t>(o.registers);
  record.gridX = static_cast<int32_t>(o.grid[0]);
  record.gridY = static_cast<int32_t>(o.grid[1]);
  record.gridZ = static_cast<int32_t>(o.grid[2]);
  record.blockX = static_cast<int32_t>(o.block[0]);
  record.blockY = static_cast<int32_t>(o.block[1]);
  record.blockZ = static_cast<int32_t>(o.block[2]);
  record.staticSharedMemory = static_cast<int32_t>(o.static_shared_bytes);
  record.dynamicSharedMemory = static_cast<int32_t>(o.dynamic_shared_bytes);
  record.gridId = next_grid++;
  record.name = o.name;
  record.graphNodeId = o.graph_node_id;
  record.graphId = o.graph_exec_id;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  record.localMemoryTotal_v2 = 0;
  queue(record, o.end_ns);
}

void copy(const Operation& o) {
  auto record = device_record<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, o);
  record.copyKind = copy_kind(o);
  record.srcKind = static_cast<uint8_t>(o.source);
  record.dstKind = static_cast<uint8_t>(o.destination);
  record.flags = o.async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
  record.bytes = o.bytes;
  record.graphNodeId = o.graph_node_id;
  record.graphId = o.graph_exec_id;
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  record.copyCount = 1;
  queue(record, o.end_ns);
}

void peer_copy(const Operation& o) {
  auto record = device_record<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, o);
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.srcKind = static_cast<uint8_t>(o.source);
  record.dstKind = static_cast<uint8_t>(o.destination);
  record.flags = o.async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
  record.bytes = o.bytes;
  record.srcDeviceId = o.peer_device;
  record.srcContextId = o.context;
  record.dstDeviceId = o.device;
  record.dstContextId = o.context;
  record.graphNodeId = o.graph_node_id;
  record.graphId = o.graph_exec_id;
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  queue(record, o.end_ns);
}

void fill(const Operation& o) {
  auto record = device_record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, o);
  record.value = o.set_value;
  record.bytes = o.bytes;
  record.flags = o.async ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0;
  record.memoryKind = static_cast<uint16_t>(o.destination);
  record.graphNodeId = o.graph_node_id;
  record.graphId = o.graph_exec_id;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  queue(record, o.end_ns);
}

void graph_launch(const Operation& o) {
  auto record = device_record<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, o);
  record.graphId = o.graph_exec_id;
  record.endDeviceId = o.device;
  record.endContextId = o.context;
  queue(record, o.end_ns);
}

void device(int ordinal) {
  simgpu::DeviceSummary summary;
  if (!hub()->device_summary(ordinal, &summary)) return;
  CUpti_ActivityDevice5 record{};
  record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  record.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
  record.globalMemorySize = summary.memory_bytes;
  record.numThreadsPerWarp = 32;
  record.numMemcpyEngines = 2;
  record.numMultiprocessors = static_cast<uint32_t>(summary.multiprocessors);
  record.maxThreadsPerBlock = 1024;
  record.computeCapabilityMajor = static_cast<uint32_t>(summary.major);
  record.computeCapabilityMinor = static_cast<uint32_t>(summary.minor);
  record.id = static_cast<uint32_t>(ordinal);
  std::memcpy(record.uuid.bytes, summary.uuid, sizeof record.uuid.bytes);
  record.name = strdup(summary.name);  // the client's to free in this version
  record.isCudaVisible = 1;
  record.numaId = UINT32_MAX;
  queue(record, 0);
}

void context(const simgpu::ContextSummary& summary) {
  CUpti_ActivityContext3 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  record.contextId = summary.id;
  record.deviceId = summary.device;
  record.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  record.nullStreamId = static_cast<uint16_t>(summary.null_stream);
  queue(record, 0);
}

struct ExternalStack {
  CUpti_ExternalCorrelationKind kind;
  std::vector<uint64_t> ids;
};
// Per thread and kind; a pointer, so that nothing is destroyed while calls still come.
thread_local std::vector<ExternalStack>* external_stacks = nullptr;

ExternalStack* external_stack(CUpti_ExternalCorrelationKind kind) {
  if (external_stacks == nullptr) external_stacks = new std::vector<ExternalStack>;
  for (ExternalStack& stack : *external_stacks) {
    if (stack.kind == kind) return &stack;
  }
  external_stacks->push_back({kind, {}});
  return &external_stacks->back();
}

std::atomic<int> thread_id_type{CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT};

uint32_t record_thread_id() {
  if (thread_id_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM) {
    static thread_local uint32_t id = static_cast<uint32_t>(syscall(SYS_gettid));
    return id;
  }
  return static_cast<uint32_t>(pthread_self());
}

}  // namespace

void record_operation(const Operation& o) {
  if (simgpu::fault("no_records") > 0) return;
  bool trace_graphs = is_enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  if (o.kind == OperationKind::graph_launch) {
    if (trace_graphs) graph_launch(o);
    return;
  }
  if (o.graph_exec_id != 0 && trace_graphs) return;
  switch (o.kind) {
    case OperationKind::kernel:
      if (is_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
        kernel(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, o);
      } else if (is_enabled(CUPTI_ACTIVITY_KIND_KERNEL)) {
        kernel(CUPTI_ACTIVITY_KIND_KERNEL, o);
      }
      break;
    case OperationKind::copy:
      if (o.peer_device != o.device) {
        if (is_enabled(CUPTI_ACTIVITY_KIND_MEMCPY2) || is_enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) {
          peer_copy(o);
        }
      } else if (is_enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) {
        copy(o);
      }
      break;
    case OperationKind::set:
      if (is_enabled(CUPTI_ACTIVITY_KIND_MEMSET)) fill(o);
      break;
    default:
      break;
  }
}

void record_host_wait(const simgpu::HostWait& wait) {
  using simgpu::WaitKind;
  if (!is_enabled(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) || simgpu::fault("no_records") > 0 ||
      wait.kind == WaitKind::free) {
    return;
  }
  CUpti_ActivitySynchronization2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = wait.kind == WaitKind::event ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE
                : wait.kind == WaitKind::context
                    ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE
                : wait.kind == WaitKind::stream_wait_event
                    ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT
                    : CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  set_times(&record, wait.start_ns, wait.end_ns);
  record.correlationId = wait.correlation;
  record.contextId = wait.context;
  record.streamId = wait.kind == WaitKind::context
                        ? static_cast<uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE)
                        : wait.stream;
  record.cudaEventId = wait.event;
  record.cudaEventSyncId = wait.event_sequence;
  queue(record, wait.end_ns);
}

void record_call(const simgpu::Call& call) {
  bool runtime = call.site->domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  CUpti_ActivityKind kind = runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  if (!is_enabled(kind) || !is_api_enabled(call.site->domain, call.site->cbid)) return;
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.cbid = call.site->cbid;
  int64_t end = hub()->now_ns();
  set_times(&record, call.start_ns, end);
  record.processId = static_cast<uint32_t>(getpid());
  record.threadId = record_thread_id();
  record.correlationId = call.correlation;
  record.returnValue = static_cast<uint32_t>(call.result);
  queue(record, end);
}

void record_external_correlation(uint32_t correlation) {
  if (external_stacks == nullptr || !is_enabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) ||
      !(is_enabled(CUPTI_ACTIVITY_KIND_RUNTIME) || is_enabled(CUPTI_ACTIVITY_KIND_DRIVER))) {
    return;
  }
  for (const ExternalStack& stack : *external_stacks) {
    if (stack.ids.empty()) continue;
    CUpti_ActivityExternalCorrelation record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = stack.kind;
    record.externalId = stack.ids.back();
    record.correlationId = correlation;
    queue(record, 0);
  }
}

void record_resource(simgpu::ResourceEvent event, uint32_t context_id, uint32_t stream_id) {
  if (event == simgpu::ResourceEvent::context_created) {
    simgpu::ContextSummary list[64];
    unsigned count = hub()->contexts(list, 64);
    for (unsigned i = 0; i < count; ++i) {
      if (list[i].id != context_id) continue;
      if (is_enabled(CUPTI_ACTIVITY_KIND_DEVICE)) device(static_cast<int>(list[i].device));
      if (is_enabled(CUPTI_ACTIVITY_KIND_CONTEXT)) context(list[i]);
    }
  } else if (event == simgpu::ResourceEvent::stream_created &&
             is_enabled(CUPTI_ACTIVITY_KIND_STREAM)) {
    CUpti_ActivityStream record{};
    record.kind = CUPTI_ACTIVITY_KIND_STREAM;
    record.contextId = context_id;
    record.streamId = stream_id;
    record.correlationId = hub()->current_correlation();
    queue(record, 0);
  }
}

void record_overhead(CUpti_ActivityOverheadKind kind, int64_t start_ns, int64_t end_ns) {
  if (!is_enabled(CUPTI_ACTIVITY_KIND_OVERHEAD)) return;
  CUpti_ActivityOverhead3 record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = kind;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<uint32_t>(getpid());
  record.objectId.pt.threadId = record_thread_id();
  set_times(&record, start_ns, end_ns);
  queue(record, end_ns);
}

void dump_records(CUpti_ActivityKind kind) {
  if (hub() == nullptr) return;
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
    for (int i = 0; i < hub()->device_count(); ++i) device(i);
  } else if (kind == CUPTI_ACTIVITY_KIND_CONTEXT) {
    simgpu::ContextSummary list[64];
    unsigned count = hub()->contexts(list, 64);
    for (unsigned i = 0; i < count; ++i) context(list[i]);
  }
}

size_t newest_record_bytes(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(CUpti_ActivityContext3);
    case CUPTI_ACTIVITY_KIND_NAME:
      return sizeof(CUpti_ActivityName);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_MARKER_DATA:
      return sizeof(CUpti_ActivityMarkerData2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_ENVIRONMENT:
      return sizeof(CUpti_ActivityEnvironment);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return sizeof(CUpti_ActivityUnifiedMemoryCounter3);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MEMORY:
      return sizeof(CUpti_ActivityMemory);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      return sizeof(CUpti_ActivityMemoryPool3);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_JIT:
      return sizeof(CUpti_ActivityJit2);
    case CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE:
      return sizeof(CUpti_ActivityDeviceGraphTrace);
    case CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS:
      return sizeof(CUpti_ActivityMemDecompress);
    default:
      return 0;
  }
}

size_t record_bytes(uint32_t kind) { return in_this_release(kind, newest_record_bytes(kind)); }

}  // namespace simcupti

using simcupti::result;

CUptiResult CUPTI(cuptiActivityPushExternalCorrelationId)(CUpti_ExternalCorrelationKind kind,
                                                          uint64_t id) {
  simcupti::external_stack(kind)->ids.push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiActivityPopExternalCorrelationId)(CUpti_ExternalCorrelationKind kind,
                                                         uint64_t* lastId) {
  auto* stack = simcupti::external_stack(kind);
  if (stack->ids.empty()) return result(CUPTI_ERROR_QUEUE_EMPTY);
  if (lastId) *lastId = stack->ids.back();
  stack->ids.pop_back();
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiSetThreadIdType)(CUpti_ActivityThreadIdType type) {
  simcupti::thread_id_type = type;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiGetThreadIdType)(CUpti_ActivityThreadIdType* type) {
  *type = static_cast<CUpti_ActivityThreadIdType>(simcupti::thread_id_type.load());
  return CUPTI_SUCCESS;
}
