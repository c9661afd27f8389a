// SPDX-License-Identifier: Apache-2.0
// Two clients share CUPTI as 13.3 lets them: each gets the records and calls it asked for, one
// goes, the other goes on; clients of the older calls are refused, with the holder's name.
//   cupti_shared [old]    old: this CUPTI is older than 13.3 and refuses to be shared
#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "check.h"
#include "named_kernel.h"

// Not in the build's older headers.
extern "C" {
CUptiResult cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle,
                                              void (*)(uint8_t**, size_t*, size_t*, void*),
                                              void (*)(uint8_t*, size_t, size_t, void*));
CUptiResult cuptiActivityEnable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void*);
CUptiResult cuptiActivityDisable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void*);
CUptiResult cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle, uint8_t*, size_t,
                                          CUpti_Activity**);
CUptiResult cuptiGetTimestamp_v2(CUpti_SubscriberHandle, uint64_t*);
}

namespace {

struct Params {
  size_t struct_size = sizeof(Params);
  const char* name = nullptr;
  char* holder = nullptr;
  size_t holder_size = 0;
  uint8_t share = 0;
  uint8_t padding[7] = {};
};

struct Client {
  CUpti_SubscriberHandle handle = nullptr;
  std::atomic<int> kernels{0};
  std::atomic<int> sets{0};
  std::atomic<int> calls{0};
};
Client clients[2];

void request(uint8_t** buffer, size_t* bytes, size_t* max_records, void*) {
  *bytes = 64 * 1024;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *bytes));
  *max_records = 0;
}

template <int kClient>
void complete(uint8_t* buffer, size_t, size_t valid, void*) {
  Client& client = clients[kClient];
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord_v2(client.handle, buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++client.kernels;
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) ++client.sets;
  }
  std::free(buffer);
}

void count_call(void* client, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
  ++static_cast<Client*>(client)->calls;
}

CUptiResult subscribe(Client& client, Params& params) {
  return cuptiSubscribe_v2(&client.handle, count_call, &client,
                           reinterpret_cast<CUpti_SubscriberParams*>(&params));
}

void work(NamedKernel& kernel, void* memory) {
  kernel.launch();
  cudaMemsetAsync(memory, 0, 64);
  cudaDeviceSynchronize();
  cuptiActivityFlushAll(0);
}

void request_alone(uint8_t**, size_t*, size_t*) {}
void complete_alone(CUcontext, uint32_t, uint8_t*, size_t, size_t) {}

// Nobody gets in beside sharing clients by the older calls, or without the wish to share.
void check_refusals() {
  CUpti_SubscriberHandle unwanted = nullptr;
  CHECK_EQ(cuptiSubscribe(&unwanted, count_call, nullptr), 39);
  CHECK_EQ(cuptiActivityRegisterCallbacks(request_alone, complete_alone), 39);
  CHECK_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), 39);
  CHECK_EQ(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_DEVICE), 39);
  CHECK_EQ(cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, 1), 39);
  char holder[64] = {};
  Params alone;
  alone.holder = holder;
  alone.holder_size = sizeof holder;
  Client third;
  CHECK_EQ(subscribe(third, alone), 39);
  CHECK(std::string(holder) == "CUPTI for first");
}

void enable(Client& client, CUpti_ActivityKind kind) {
  CHECK_EQ(cuptiActivityEnable_v2(client.handle, kind, nullptr), 0);
}

void check_counts(const Client& client, int kernels, int sets, int calls) {
  CHECK_EQ(client.kernels, kernels);
  CHECK_EQ(client.sets, sets);
  CHECK_EQ(client.calls, calls);
}

void check_sharing() {
  CHECK_EQ(cuptiActivityRegisterCallbacks_v2(clients[0].handle, request, complete<0>), 0);
  CHECK_EQ(cuptiActivityRegisterCallbacks_v2(clients[1].handle, request, complete<1>), 0);
  enable(clients[0], CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  enable(clients[1], CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  enable(clients[1], CUPTI_ACTIVITY_KIND_MEMSET);
  CHECK_EQ(cuptiEnableCallback(1, clients[1].handle, CUPTI_CB_DOMAIN_RUNTIME_API,
                               CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000),
           0);
  uint64_t time = 0;
  CHECK_EQ(cuptiGetTimestamp_v2(clients[0].handle, &time), 0);
  CHECK(time != 0);

  NamedKernel kernel("k");
  void* memory = nullptr;
  cudaMalloc(&memory, 64);
  work(kernel, memory);
  check_counts(clients[0], 1, 0, 0);
  check_counts(clients[1], 1, 1, 2);  // a call is its enter and its exit

  // One switches a kind off that the other keeps; then it leaves.
  CHECK_EQ(
      cuptiActivityDisable_v2(clients[0].handle, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, nullptr),
      0);
  work(kernel, memory);
  check_counts(clients[0], 1, 0, 0);
  check_counts(clients[1], 2, 2, 4);
  enable(clients[0], CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  CHECK_EQ(cuptiUnsubscribe(clients[0].handle), 0);
  CHECK_EQ(cuptiActivityEnable_v2(clients[0].handle, CUPTI_ACTIVITY_KIND_MEMSET, nullptr),
           CUPTI_ERROR_INVALID_PARAMETER);
  work(kernel, memory);
  check_counts(clients[0], 1, 0, 0);
  check_counts(clients[1], 3, 3, 6);
  CHECK_EQ(cuptiUnsubscribe(clients[1].handle), 0);
}

// The older calls are first, and who wants to share is refused.
void check_older_calls_first(Params params) {
  CUpti_SubscriberHandle alone = nullptr;
  Client late;
  CHECK_EQ(cuptiSubscribe(&alone, count_call, nullptr), 0);
  CHECK_EQ(subscribe(late, params), 39);
  CHECK_EQ(cuptiUnsubscribe(alone), 0);
  CHECK_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), 0);
  CHECK_EQ(subscribe(late, params), 39);
  CHECK_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMSET), 0);
  CHECK_EQ(subscribe(late, params), 0);
}

void check_old_version(Params params) {
  CHECK_EQ(subscribe(clients[0], params), CUPTI_ERROR_NOT_SUPPORTED);
  params.struct_size = offsetof(Params, share);  // 13.0's
  CHECK_EQ(subscribe(clients[0], params), 0);
  CHECK_EQ(cuptiActivityRegisterCallbacks_v2(clients[0].handle, request, complete<0>),
           CUPTI_ERROR_NOT_SUPPORTED);
  CHECK_EQ(cuptiActivityEnable_v2(clients[0].handle, CUPTI_ACTIVITY_KIND_MEMSET, nullptr),
           CUPTI_ERROR_NOT_SUPPORTED);
  uint64_t time = 0;
  CHECK_EQ(cuptiGetTimestamp_v2(clients[0].handle, &time), CUPTI_ERROR_NOT_SUPPORTED);
  CHECK_EQ(time, 0u);
  CHECK_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), 0);
}

}  // namespace

int main(int argc, char**) {
  Params params;
  params.name = "first";
  params.share = 1;
  if (argc > 1) {
    check_old_version(params);
    return finish_checks();
  }
  CHECK_EQ(subscribe(clients[0], params), 0);
  params.name = "second";
  CHECK_EQ(subscribe(clients[1], params), 0);
  check_refusals();
  check_sharing();
  check_older_calls_first(params);  // the seat is free again
  return finish_checks();
}
