// SPDX-License-Identifier: Apache-2.0
// Eight threads with ten thousand launches each, on their own streams, and the cost of a launch.
// Run with SIMGPU_DEFAULT_KERNEL=100ns.
#include <chrono>
#include <thread>
#include <vector>

#include "check.h"

__global__ void tick() {}

int main() {
  constexpr int kThreads = 8;
  constexpr int kLaunches = 10000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i] {
      cudaStream_t stream = 0;
      if (i % 2) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      for (int launch = 0; launch < kLaunches; ++launch) tick<<<1, 32, 0, stream>>>();
      CHECK_EQ(cudaGetLastError(), 0);
      CHECK_EQ(cudaStreamSynchronize(stream), 0);
      if (i % 2) cudaStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto start = std::chrono::steady_clock::now();
  for (int launch = 0; launch < 100000; ++launch) tick<<<1, 32>>>();
  double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
      100000;
  std::printf("one launch: %.3f us\n", us);
  CHECK(us < 5);
  CHECK_EQ(cudaDeviceSynchronize(), 0);
  return finish_checks();
}
