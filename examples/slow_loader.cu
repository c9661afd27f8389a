// SPDX-License-Identifier: Apache-2.0
//
// Planted cause: a data loader that is slower than the GPU. One thread reads and decodes batches
// into a bounded queue; the training thread takes one batch per step, copies it to the device and
// launches the step. The device is idle while BatchQueue::next_to_device() waits for the loader.
#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "spin.cuh"

#define EXPORTED __attribute__((noinline, visibility("default")))

namespace training {

constexpr int kSteps = 80;
constexpr int kSlots = 3;  // prefetched batches
constexpr std::size_t kBatchBytes = 1u << 20;
constexpr auto kReadTime = std::chrono::milliseconds(20);  // latency of the storage per batch

__global__ void forward_pass(long long duration_ns) { spin_for(duration_ns); }
__global__ void backward_pass(long long duration_ns) { spin_for(duration_ns); }
__global__ void optimizer_update(long long duration_ns) { spin_for(duration_ns); }

struct Batch {
  unsigned char* host = nullptr;  // pinned
  cudaEvent_t copied = nullptr;
};

// Slots go round: free -> filled by the loader -> copied by the trainer -> free.
class BatchQueue {
 public:
  BatchQueue() {
    for (Batch& slot : slots_) {
      check(cudaMallocHost(reinterpret_cast<void**>(&slot.host), kBatchBytes));
      check(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming));
      free_.push_back(&slot);
    }
  }

  Batch* wait_for_free_slot() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty(); });
    Batch* const slot = free_.front();
    free_.pop_front();
    return slot;
  }

  void push(Batch* batch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    filled_.push_back(batch);
    changed_.notify_all();
  }

  // Waits for the next batch and enqueues its copy: the call that ends each idle gap.
  EXPORTED void next_to_device(void* device_buffer, cudaStream_t stream);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch*> free_;
  std::deque<Batch*> filled_;
  Batch slots_[kSlots];
};

void BatchQueue::next_to_device(void* device_buffer, cudaStream_t stream) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !filled_.empty(); });
  Batch* const batch = filled_.front();
  filled_.pop_front();
  lock.unlock();
  check(cudaMemcpyAsync(device_buffer, batch->host, kBatchBytes, cudaMemcpyHostToDevice, stream));
  check(cudaEventRecord(batch->copied, stream));
  lock.lock();
  free_.push_back(batch);
  changed_.notify_all();
}

EXPORTED std::uint64_t read_and_decode(Batch* batch, int index) {
  std::this_thread::sleep_for(kReadTime);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBatchBytes; i += 64) {
    batch->host[i] = static_cast<unsigned char>(i * 31 + static_cast<std::size_t>(index));
    sum += batch->host[i];
  }
  return sum;
}

EXPORTED void load_batches(BatchQueue* queue, std::uint64_t* checksum) {
  for (int i = 0; i < kSteps; ++i) {
    Batch* const slot = queue->wait_for_free_slot();
    check(cudaEventSynchronize(slot->copied));  // its previous copy still reads the buffer
    *checksum += read_and_decode(slot, i);
    queue->push(slot);
  }
}

EXPORTED void train_step(cudaStream_t stream) {
  forward_pass<<<64, 256, 0, stream>>>(1'500'000);
  backward_pass<<<64, 256, 0, stream>>>(2'500'000);
  optimizer_update<<<16, 256, 0, stream>>>(500'000);
  check(cudaGetLastError());
}

EXPORTED std::uint64_t train() {
  BatchQueue queue;
  void* device_buffer = nullptr;
  cudaStream_t stream = nullptr;
  check(cudaMalloc(&device_buffer, kBatchBytes));
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::uint64_t checksum = 0;
  std::thread loader(load_batches, &queue, &checksum);
  for (int step = 0; step < kSteps; ++step) {
    queue.next_to_device(device_buffer, stream);
    train_step(stream);
  }
  check(cudaStreamSynchronize(stream));
  loader.join();
  return checksum;
}

}  // namespace training

int main() {
  const std::uint64_t checksum = training::train();
  std::printf("slow_loader: %d steps, checksum %llu\n", training::kSteps,
              static_cast<unsigned long long>(checksum));
  return 0;
}
