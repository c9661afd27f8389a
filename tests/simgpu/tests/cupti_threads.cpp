// SPDX-License-Identifier: Apache-2.0
// Many threads launch, one flushes all the time: every launch has one record, and no other.
#include <cupti.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "check.h"
#include "named_kernel.h"

namespace {

constexpr int kThreads = 8;
constexpr int kLaunches = 2000;

std::mutex mutex;
std::set<uint32_t> correlations;
int kernels = 0;
std::atomic<int> callbacks{0};

void request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *bytes = 64 * 1024;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *bytes));
  *max_records = 100;
}

void complete_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard<std::mutex> lock(mutex);
  CUpti_Activity* record = nullptr;
  int in_buffer = 0;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    auto* kernel = reinterpret_cast<CUpti_ActivityKernel10*>(record);
    correlations.insert(kernel->correlationId);
    CHECK(kernel->end > kernel->start);
    ++kernels;
    ++in_buffer;
  }
  CHECK(in_buffer <= 100);
  std::free(buffer);
}

void count_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) { ++callbacks; }

}  // namespace

int main() {
  CUpti_SubscriberHandle subscriber;
  CHECK_EQ(cuptiSubscribe(&subscriber, count_call, nullptr), 0);
  CHECK_EQ(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
                               CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000),
           0);
  CHECK_EQ(cuptiActivityRegisterCallbacks(request_buffer, complete_buffer), 0);
  CHECK_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 0);
  NamedKernel kernel("k");
  std::atomic<bool> stop{false};
  std::thread flusher([&stop] {
    while (!stop) {
      cuptiActivityFlushAll(0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&kernel] {
      cudaStream_t stream;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      for (int launch = 0; launch < kLaunches; ++launch) kernel.launch(stream);
      cudaStreamSynchronize(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
      (kThreads * kLaunches);
  std::printf("one traced launch: %.3f us\n", us);
  stop = true;
  flusher.join();
  cuptiActivityFlushAll(0);
  size_t dropped = 1;
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  CHECK_EQ(dropped, 0);
  CHECK_EQ(kernels, kThreads * kLaunches);
  CHECK_EQ(correlations.size(), kThreads * kLaunches);
  CHECK_EQ(callbacks.load(), 2 * kThreads * kLaunches);
  return finish_checks();
}
