// SPDX-License-Identifier: Apache-2.0
//
// A program that profiles a part of itself with CUPTI, as a training script does with
// torch.profiler. Prints how many kernels it saw. Fed by life_profiler_test.py.
//   life_late_client subscribes|registers    by a subscription and its own buffers, or by buffers
//   alone
#include <cupti.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/process/device_feeder.h"

namespace {

constexpr int kSteps = 20;
std::atomic<int> g_kernels{0};

void on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *bytes = 64 * 1024;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
  *max_records = 0;
}

void complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++g_kernels;
  }
  std::free(buffer);
}

void require(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  std::printf("%s: CUPTI error %d\n", call, static_cast<int>(result));
  std::exit(7);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: life_late_client subscribes|registers\n");
    return 2;
  }
  DeviceFeeder feeder;
  feeder.run(kSteps);
  CUpti_SubscriberHandle subscriber = nullptr;
  if (std::string(argv[1]) == "subscribes") {
    require(cuptiSubscribe(&subscriber, on_call, nullptr), "cuptiSubscribe");
  }
  require(cuptiActivityRegisterCallbacks(request, complete), "cuptiActivityRegisterCallbacks");
  require(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
  feeder.run(kSteps);
  require(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityDisable");
  require(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  if (subscriber != nullptr) require(cuptiUnsubscribe(subscriber), "cuptiUnsubscribe");
  feeder.run(kSteps);
  std::printf("the profiler saw %d kernels\n", g_kernels.load());
  return 0;
}
