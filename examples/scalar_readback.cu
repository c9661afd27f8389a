// SPDX-License-Identifier: Apache-2.0
//
// Planted cause: the loss is read back after every step. The blocking copy in read_loss() drains
// the device, so that the host's own work between two steps, which would otherwise overlap with the
// device's, is paid in full as idle time of the device.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "spin.cuh"

#define EXPORTED __attribute__((noinline, visibility("default")))

namespace training {

constexpr int kSteps = 200;
constexpr std::size_t kSamples = 800'000;

__global__ void forward_pass(long long duration_ns) { spin_for(duration_ns); }
__global__ void backward_pass(long long duration_ns) { spin_for(duration_ns); }

// The host's part of a step: which samples come next. Some milliseconds, always the same work.
EXPORTED std::uint32_t shuffle_samples(std::vector<std::uint32_t>* order, std::uint32_t seed) {
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::size_t i = order->size() - 1; i > 0; --i) {
    state = state * 1664525u + 1013904223u;
    std::swap((*order)[i], (*order)[state % (i + 1)]);
  }
  return order->front();
}

EXPORTED void launch_step(float* weights) {
  forward_pass<<<128, 256>>>(1'500'000);
  backward_pass<<<128, 256>>>(2'000'000);
  check(cudaGetLastError());
  check(cudaMemsetAsync(weights, 0, sizeof(float)));
}

// One float over the bus, and the host and the device wait for each other.
EXPORTED float read_loss(const float* device_loss) {
  float loss = 1;
  check(cudaMemcpy(&loss, device_loss, sizeof(loss), cudaMemcpyDeviceToHost));
  return loss;
}

EXPORTED std::uint64_t train() {
  float* loss = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&loss), sizeof(float)));
  std::vector<std::uint32_t> order(kSamples);
  std::iota(order.begin(), order.end(), 0u);
  std::uint64_t checksum = 0;
  float total_loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    launch_step(loss);
    total_loss += read_loss(loss);
    checksum += shuffle_samples(&order, static_cast<std::uint32_t>(step));
  }
  check(cudaFree(loss));
  return checksum + static_cast<std::uint64_t>(total_loss);
}

}  // namespace training

int main() {
  const std::uint64_t checksum = training::train();
  std::printf("scalar_readback: %d steps, checksum %llu\n", training::kSteps,
              static_cast<unsigned long long>(checksum));
  return 0;
}
