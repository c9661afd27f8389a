// SPDX-License-Identifier: Apache-2.0
// Two clients share CUPTI as 13.3 lets them: each gets the records and calls it asked for, one
// goes, the other goes on; clients of the older calls are refused, with the holder's name.
#include <cupti.h>

#include <atomic>
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

}  // namespace

int main() {
  Params params;
  params.name = "first";
  params.share = 1;
  CHECK_EQ(subscribe(clients[0], params), 0);
  params.name = "second";
  CHECK_EQ(subscribe(clients[1], params), 0);

  // Nobody else gets in by the older calls, or without the wish to share.
  CUpti_SubscriberHandle unwanted = nullptr;
  CHECK_EQ(cuptiSubscribe(&unwanted, count_call, nullptr), 39);
  CHECK_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), 39);
  char holder[64] = {};
  Params alone;
  alone.holder = holder;
  alone.holder_size = sizeof holder;
  Client third;
  CHECK_EQ(subscribe(third, alone), 39);
  CHECK(std::string(holder) == "CUPTI for first");

  CHECK_EQ(cuptiActivityRegisterCallbacks_v2(clients[0].handle, request, complete<0>), 0);
  CHECK_EQ(cuptiActivityRegisterCallbacks_v2(clients[1].handle, request, complete<1>), 0);
  CHECK_EQ(
      cuptiActivityEnable_v2(clients[0].handle, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, nullptr), 0);
  CHECK_EQ(
      cuptiActivityEnable_v2(clients[1].handle, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, nullptr), 0);
  CHECK_EQ(cuptiActivityEnable_v2(clients[1].handle, CUPTI_ACTIVITY_KIND_MEMSET, nullptr), 0);
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
  CHECK_EQ(clients[0].kernels, 1);
  CHECK_EQ(clients[0].sets, 0);
  CHECK_EQ(clients[0].calls, 0);
  CHECK_EQ(clients[1].kernels, 1);
  CHECK_EQ(clients[1].sets, 1);
  CHECK_EQ(clients[1].calls, 2);  // enter and exit

  CHECK_EQ(cuptiUnsubscribe(clients[0].handle), 0);
  work(kernel, memory);
  CHECK_EQ(clients[0].kernels, 1);
  CHECK_EQ(clients[1].kernels, 2);
  CHECK_EQ(clients[1].sets, 2);
  CHECK_EQ(cuptiUnsubscribe(clients[1].handle), 0);
  CHECK_EQ(cuptiSubscribe(&unwanted, count_call, nullptr), 0);  // the seat is free again
  return finish_checks();
}
