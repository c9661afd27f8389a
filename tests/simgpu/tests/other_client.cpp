// SPDX-License-Identifier: Apache-2.0
// Another profiler, for CUDA_INJECTION64_PATH: takes CUPTI when the driver starts, before a tool
// that waits for cuInit to return. At the program's end it says on stderr how many kernel records
// it got. SIMGPU_OTHER_CLIENT tells how it subscribes: v1 (the older calls), named (alone, with a
// name), shared (beside others, the calls of 13.3).
#include <cupti.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

// Not in the build's older headers.
extern "C" {
CUptiResult cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle,
                                              void (*)(uint8_t**, size_t*, size_t*, void*),
                                              void (*)(uint8_t*, size_t, size_t, void*));
CUptiResult cuptiActivityEnable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void*);
CUptiResult cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle, uint8_t*, size_t,
                                          CUpti_Activity**);
}

namespace {

struct SharedParams {
  CUpti_SubscriberParams params = {};
  uint64_t share = 1;  // one byte of it is looked at
};

CUpti_SubscriberHandle handle;
bool is_shared = false;
std::atomic<int> kernels{0};

void on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void request(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *bytes = 64 * 1024;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *bytes));
  *max_records = 0;
}

void complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while ((is_shared ? cuptiActivityGetNextRecord_v2(handle, buffer, valid, &record)
                    : cuptiActivityGetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++kernels;
  }
  std::free(buffer);
}

void request_shared(uint8_t** buffer, size_t* bytes, size_t* max_records, void*) {
  request(buffer, bytes, max_records);
}

void complete_shared(uint8_t* buffer, size_t bytes, size_t valid, void*) {
  complete(nullptr, 0, buffer, bytes, valid);
}

CUptiResult subscribe(const std::string& how) {
  if (how == "v1") return cuptiSubscribe(&handle, on_call, nullptr);
  SharedParams shared;
  shared.params.structSize = is_shared ? sizeof shared : sizeof shared.params;
  shared.params.subscriberName = "other_client";
  return cuptiSubscribe_v2(&handle, on_call, nullptr, &shared.params);
}

CUptiResult record_kernels() {
  constexpr CUpti_ActivityKind kKind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  CUptiResult status =
      is_shared ? cuptiActivityRegisterCallbacks_v2(handle, request_shared, complete_shared)
                : cuptiActivityRegisterCallbacks(request, complete);
  if (status != CUPTI_SUCCESS) return status;
  return is_shared ? cuptiActivityEnable_v2(handle, kKind, nullptr) : cuptiActivityEnable(kKind);
}

void say_count() {
  cuptiActivityFlushAll(0);
  std::fprintf(stderr, "other_client: %d kernels\n", kernels.load());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* how = std::getenv("SIMGPU_OTHER_CLIENT");
  is_shared = how != nullptr && std::string(how) == "shared";
  CUptiResult status = subscribe(how == nullptr ? "v1" : how);
  if (status == CUPTI_SUCCESS) status = record_kernels();
  if (status != CUPTI_SUCCESS) {
    std::fprintf(stderr, "other_client: CUPTI error %d\n", static_cast<int>(status));
    return 0;
  }
  std::atexit(say_count);
  return 1;
}
