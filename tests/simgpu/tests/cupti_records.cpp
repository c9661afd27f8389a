// SPDX-License-Identifier: Apache-2.0
// A client of CUPTI: its records must equal the ground truth row by row, and callbacks must come in
// pairs with names, parameters and correlation ids. Run with SIMGPU_TIMELINE=FILE.
#include <cupti.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "named_kernel.h"

namespace {

std::mutex mutex;
std::vector<std::string> seen;  // rows as text, see row_text
std::map<int, int> kinds;
std::vector<CUpti_ActivityAPI> calls;
std::thread::id main_thread = std::this_thread::get_id();
bool delivered_elsewhere = false;
int64_t offset_ns = 0;
uint64_t latest_start = 0;
constexpr uint64_t kAheadNs = 5'000'000'000;

std::string row_text(uint32_t device, uint32_t stream, const std::string& kind,
                     const std::string& name, int64_t start, int64_t end, uint64_t bytes,
                     uint32_t correlation) {
  std::ostringstream text;
  text << device << ' ' << stream << ' ' << kind << ' ' << name << ' ' << start << ' ' << end << ' '
       << bytes << ' ' << correlation;
  return text.str();
}

bool has_been_delivered_elsewhere() {
  std::lock_guard<std::mutex> lock(mutex);
  return delivered_elsewhere;
}

int64_t device_time(uint64_t timestamp) { return static_cast<int64_t>(timestamp) - offset_ns; }

void take(CUpti_Activity* record) {
  ++kinds[record->kind];
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    auto* k = reinterpret_cast<CUpti_ActivityKernel10*>(record);
    seen.push_back(row_text(k->deviceId, k->streamId, "kernel", k->name, device_time(k->start),
                            device_time(k->end), 0, k->correlationId));
    latest_start = k->start;
    CHECK_EQ(k->gridX, 4);
    CHECK_EQ(k->blockX, 64);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    auto* m = reinterpret_cast<CUpti_ActivityMemcpy6*>(record);
    const char* kind = m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "memcpy_htod"
                       : m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "memcpy_dtoh"
                                                                        : "memcpy_dtod";
    seen.push_back(row_text(m->deviceId, m->streamId, kind, "memcpy", device_time(m->start),
                            device_time(m->end), m->bytes, m->correlationId));
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
    auto* m = reinterpret_cast<CUpti_ActivityMemcpyPtoP4*>(record);
    seen.push_back(row_text(m->deviceId, m->streamId, "memcpy_ptop", "memcpy",
                            device_time(m->start), device_time(m->end), m->bytes,
                            m->correlationId));
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    auto* m = reinterpret_cast<CUpti_ActivityMemset4*>(record);
    seen.push_back(row_text(m->deviceId, m->streamId, "memset", "memset", device_time(m->start),
                            device_time(m->end), m->bytes, m->correlationId));
  } else if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
    calls.push_back(*reinterpret_cast<CUpti_ActivityAPI*>(record));
  }
}

void request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *bytes = 8192;  // small: many buffers
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *bytes));
  *max_records = 0;
}

void complete_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard<std::mutex> lock(mutex);
  if (std::this_thread::get_id() != main_thread) delivered_elsewhere = true;
  CUpti_Activity* record = nullptr;
  CUptiResult result;
  while ((result = cuptiActivityGetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS) {
    take(record);
  }
  CHECK_EQ(result, CUPTI_ERROR_MAX_LIMIT_REACHED);
  std::free(buffer);
}

struct CallbackCount {
  int enters = 0, exits = 0, launches = 0, copies = 0, resources[8] = {}, synchronized = 0;
} count;

void callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
  CHECK(user == &count);
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    if (cbid < 8) ++count.resources[cbid];
    return;
  }
  if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE) {
    ++count.synchronized;
    return;
  }
  auto* call = static_cast<const CUpti_CallbackData*>(data);
  const char* name = nullptr;
  CHECK_EQ(cuptiGetCallbackName(domain, cbid, &name), 0);
  CHECK(name && std::strncmp(name, call->functionName, std::strlen(call->functionName)) == 0);
  if (call->callbackSite == CUPTI_API_ENTER) {
    ++count.enters;
    *call->correlationData = call->correlationId + uint64_t{1000};
  } else {
    ++count.exits;
    CHECK_EQ(*call->correlationData, call->correlationId + uint64_t{1000});
    CHECK_EQ(*static_cast<const cudaError_t*>(call->functionReturnValue), 0);
  }
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API &&
      cbid == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) {
    ++count.launches;
    auto* params = static_cast<const cudaLaunchKernel_v7000_params*>(call->functionParams);
    CHECK_EQ(params->gridDim.x, 4);
    CHECK(call->symbolName && std::strcmp(call->symbolName, "first_kernel") == 0);
  }
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020) {
    ++count.copies;
    auto* params = static_cast<const cudaMemcpy_v3020_params*>(call->functionParams);
    CHECK_EQ(params->count, 1000);
  }
}

std::vector<std::string> read_truth() {
  std::vector<std::string> rows;
  std::ifstream file(std::getenv("SIMGPU_TIMELINE"));
  std::string line;
  std::getline(file, line);
  CHECK(line.rfind("device,stream,kind,name,enqueue_ns", 0) == 0);
  while (std::getline(file, line)) {
    std::vector<std::string> f;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) f.push_back(field);
    CHECK_EQ(f.size(), 13);
    auto number = [&f](size_t i) { return std::strtoll(f[i].c_str(), nullptr, 10); };
    if (f[2] == "clock") offset_ns = number(6) - number(5);
    if (f[2] != "kernel" && f[2].rfind("mem", 0) != 0) continue;
    rows.push_back(row_text(static_cast<uint32_t>(number(0)), static_cast<uint32_t>(number(1)),
                            f[2], f[3], number(5), number(6), static_cast<uint64_t>(number(7)),
                            static_cast<uint32_t>(number(8))));
  }
  return rows;
}

void run_work(NamedKernel* kernel) {
  cudaStream_t stream;
  CHECK_EQ(cudaStreamCreate(&stream), 0);
  static char host[1000];
  void *device, *pinned, *peer;
  CHECK_EQ(cudaMalloc(&device, 1000), 0);
  CHECK_EQ(cudaMallocHost(&pinned, 1000), 0);
  for (int i = 0; i < 200; ++i) {
    CHECK_EQ(kernel->launch(i % 2 ? stream : nullptr), 0);
    if (i % 10 == 0) {
      CHECK_EQ(cudaMemcpy(device, host, 1000, cudaMemcpyHostToDevice), 0);
      CHECK_EQ(cudaMemcpyAsync(pinned, device, 1000, cudaMemcpyDeviceToHost, stream), 0);
      CHECK_EQ(cudaMemsetAsync(device, 1, 500, stream), 0);
    }
  }
  CHECK_EQ(cudaStreamSynchronize(stream), 0);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  kernel->launch(stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  CHECK_EQ(cudaGraphLaunch(exec, stream), 0);
  CHECK_EQ(cudaDeviceSynchronize(), 0);
  CHECK_EQ(cudaSetDevice(1), 0);
  CHECK_EQ(cudaMalloc(&peer, 1000), 0);
  CHECK_EQ(cudaMemcpyPeer(peer, 1, device, 0, 1000), 0);
  CHECK_EQ(cudaDeviceSynchronize(), 0);
  CHECK_EQ(cudaSetDevice(0), 0);
  CHECK_EQ(cudaStreamDestroy(stream), 0);
}

}  // namespace

int main() {
  uint32_t version = 0;
  CHECK_EQ(cuptiGetVersion(&version), 0);
  CHECK_EQ(version, CUPTI_API_VERSION);
  CUpti_SubscriberHandle subscriber, second;
  CHECK_EQ(cuptiSubscribe(&subscriber, callback, &count), 0);
  CHECK_EQ(cuptiSubscribe(&second, callback, &count), 39);
  CHECK_EQ(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API), 0);
  CHECK_EQ(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_SYNCHRONIZE), 0);
  for (uint32_t cbid = 1; cbid <= 5; ++cbid) {
    CHECK_EQ(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, cbid), 0);
  }
  CHECK_EQ(cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), 0);
  CHECK_EQ(cuptiActivityRegisterCallbacks(request_buffer, complete_buffer), 0);
  for (CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_RUNTIME,
        CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_DEVICE,
        CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_OVERHEAD}) {
    CHECK_EQ(cuptiActivityEnable(kind), 0);
  }
  CHECK_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);
  cudaFree(nullptr);  // opens the timeline, whose first row has the offset
  read_truth();

  NamedKernel kernel("first_kernel");
  cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 4711);
  run_work(&kernel);
  uint64_t id = 0;
  cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &id);
  CHECK_EQ(id, 4711);
  // The worker brings full buffers by itself; on a busy machine it may need its time.
  for (int i = 0; i < 1000 && !has_been_delivered_elsewhere(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK_EQ(cuptiActivityFlushAll(0), 0);
  CHECK_EQ(cuptiActivityFlushAll(0), 0);  // brings the record of the first flush's overhead
  size_t dropped = 1;
  CHECK_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), 0);
  CHECK_EQ(dropped, 0);

  std::vector<std::string> truth = read_truth();
  {
    std::lock_guard<std::mutex> lock(mutex);
    CHECK_EQ(truth.size(), 200 + 3 * 20 + 1 + 1);
    std::sort(truth.begin(), truth.end());
    std::sort(seen.begin(), seen.end());
    CHECK(truth == seen);
    CHECK_EQ(kinds[CUPTI_ACTIVITY_KIND_DEVICE], 2);
    CHECK_EQ(kinds[CUPTI_ACTIVITY_KIND_CONTEXT], 2);
    CHECK_EQ(kinds[CUPTI_ACTIVITY_KIND_MEMCPY2], 1);
    CHECK(kinds[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION] >= 23);
    CHECK(kinds[CUPTI_ACTIVITY_KIND_OVERHEAD] >= 1);
    CHECK_EQ(kinds[CUPTI_ACTIVITY_KIND_RUNTIME], count.exits);
    CHECK(kinds[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION] > 200);
    CHECK(delivered_elsewhere);
  }
  CHECK_EQ(count.enters, count.exits);
  CHECK_EQ(count.launches, 2 * 201);
  CHECK_EQ(count.copies, 2 * 20);
  CHECK_EQ(count.resources[CUPTI_CBID_RESOURCE_CU_INIT_FINISHED], 1);
  CHECK_EQ(count.resources[CUPTI_CBID_RESOURCE_CONTEXT_CREATED], 2);
  CHECK_EQ(count.resources[CUPTI_CBID_RESOURCE_STREAM_CREATED], 1);
  CHECK_EQ(count.resources[CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING], 1);
  CHECK_EQ(count.synchronized, 3);

  // A forced flush cuts the kernels under way short, once and for all.
  seen.clear();
  for (int i = 0; i < 500; ++i) kernel.launch();
  cuptiActivityFlushAll(0);
  CHECK(seen.size() < 500);
  cuptiActivityFlushAll(1);
  CHECK_EQ(seen.size(), 500);
  cudaDeviceSynchronize();
  cuptiActivityFlushAll(1);
  CHECK_EQ(seen.size(), 500);

  // Graph tracing: one record for the launch, none for its nodes.
  kinds.clear();
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  kernel.launch(stream);
  kernel.launch(stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, stream);
  cudaDeviceSynchronize();
  cuptiActivityFlushAll(0);
  CHECK_EQ(kinds[CUPTI_ACTIVITY_KIND_GRAPH_TRACE], 1);
  CHECK_EQ(kinds[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL], 0);

  // A late comer gets the devices and contexts that are there.
  kinds.clear();
  cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_CONTEXT);
  cuptiActivityFlushAll(0);
  CHECK_EQ(kinds[CUPTI_ACTIVITY_KIND_CONTEXT], 2);

  // A client's own clock, here five seconds ahead.
  CHECK_EQ(cuptiActivityRegisterTimestampCallback([]() -> uint64_t {
             uint64_t now = 0;
             cuptiGetTimestamp(&now);
             return now + kAheadNs;
           }),
           0);
  uint64_t now = 0;
  cuptiGetTimestamp(&now);
  latest_start = 0;
  kernel.launch();
  cudaDeviceSynchronize();
  cuptiActivityFlushAll(0);
  CHECK(latest_start > now + kAheadNs - 1'000'000);
  CHECK(latest_start < now + 2 * kAheadNs);
  CHECK_EQ(cuptiUnsubscribe(subscriber), 0);
  int before = count.enters;
  cudaDeviceSynchronize();
  CHECK_EQ(count.enters, before);
  return finish_checks();
}
