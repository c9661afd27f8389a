// SPDX-License-Identifier: Apache-2.0
// Prints what a client sees under SIMGPU_FAULT, one line per fact; the caller compares.
#include <cupti.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "check.h"
#include "named_kernel.h"

namespace {

std::atomic<int> records{0}, zeros{0}, reversed{0};

void request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *bytes = 1 << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *bytes));
  *max_records = 0;
}

void complete_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    auto* kernel = reinterpret_cast<CUpti_ActivityKernel10*>(record);
    ++records;
    if (kernel->start == 0 && kernel->end == 0) ++zeros;
    if (kernel->end < kernel->start) ++reversed;
  }
  std::free(buffer);
}

void ignore(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

}  // namespace

int main() {
  uint32_t version = 0;
  cuptiGetVersion(&version);
  CUpti_SubscriberHandle subscriber;
  int subscribed = cuptiSubscribe(&subscriber, ignore, nullptr);
  cuptiActivityRegisterCallbacks(request_buffer, complete_buffer);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  NamedKernel kernel("k");
  int launched = 0;
  for (int i = 0; i < 100; ++i) launched = kernel.launch();
  cudaDeviceSynchronize();
  std::atomic<bool> flushed{false};
  std::thread([&flushed] {
    cuptiActivityFlushAll(0);
    flushed = true;
  }).detach();
  for (int i = 0; i < 300 && !flushed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  int early = records;
  size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  if (flushed) cuptiActivityFlushAll(1);
  std::printf(
      "version=%u subscribe=%d launch=%d flushed=%d early=%d records=%d zeros=%d "
      "reversed=%d dropped=%zu\n",
      version, subscribed, launched, static_cast<int>(flushed), early, records.load(), zeros.load(),
      reversed.load(), dropped);
  std::fflush(stdout);
  std::_Exit(0);
}
