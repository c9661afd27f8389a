// SPDX-License-Identifier: Apache-2.0
//
// A program whose GPU work is known beforehand: so many kernels of so long each. check_gpu.py
// compares what was recorded with the JSON line that this prints. On the simulated device
// known_work.simgpu gives the kernel its length.
//   known_work kernels    a copy and a kernel per step, with pauses
//   known_work graph      a graph of several kernels, launched again and again
//   known_work threads    four threads, each with a stream of its own
//   known_work storm      many short kernels back to back
//   known_work seconds N  steps until N seconds have passed
#include <cuda_runtime.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "../../examples/spin.cuh"

namespace {

constexpr long long kKernelNs = 500'000;
constexpr int kSteps = 100;
constexpr int kGraphKernels = 10;
constexpr int kGraphLaunches = 30;
constexpr int kThreads = 4;
constexpr int kStorm = 20000;
constexpr std::size_t kBytes = 1 << 20;

__global__ void known_kernel(long long duration_ns) { spin_for(duration_ns); }
__global__ void storm_kernel() {}

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void pause_ms(long milliseconds) {
  const timespec time{0, milliseconds * 1'000'000};
  nanosleep(&time, nullptr);
}

struct Buffers {
  void* host = nullptr;
  void* device = nullptr;
  Buffers() {
    check(cudaMallocHost(&host, kBytes));
    check(cudaMalloc(&device, kBytes));
  }
};

void step(const Buffers& buffers, cudaStream_t stream) {
  check(cudaMemcpyAsync(buffers.device, buffers.host, kBytes, cudaMemcpyHostToDevice, stream));
  known_kernel<<<1, 32, 0, stream>>>(kKernelNs);
  check(cudaGetLastError());
}

void print(int kernels, int copies, int launches, long long kernel_ns) {
  std::printf("{\"kernels\": %d, \"copies\": %d, \"launches\": %d, \"kernel_ns\": %lld}\n", kernels,
              copies, launches, kernel_ns);
}

void run_kernels() {
  const Buffers buffers;
  for (int i = 0; i < kSteps; ++i) {
    step(buffers, nullptr);
    pause_ms(2);
  }
  check(cudaDeviceSynchronize());
  print(kSteps, kSteps, kSteps, kKernelNs);
}

void run_graph() {
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kGraphKernels; ++i) known_kernel<<<1, 32, 0, stream>>>(kKernelNs);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  for (int i = 0; i < kGraphLaunches; ++i) {
    check(cudaGraphLaunch(executable, stream));
    pause_ms(1);
  }
  check(cudaStreamSynchronize(stream));
  // The calls that were captured are launch calls too, though they queued nothing.
  print(kGraphKernels * kGraphLaunches, 0, kGraphLaunches + kGraphKernels, kKernelNs);
}

void run_threads() {
  check(cudaFree(nullptr));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      check(cudaSetDevice(0));
      const Buffers buffers;
      cudaStream_t stream;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      for (int i = 0; i < kSteps; ++i) step(buffers, stream);
      check(cudaStreamSynchronize(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  print(kThreads * kSteps, kThreads * kSteps, kThreads * kSteps, kKernelNs);
}

void run_storm() {
  check(cudaFree(nullptr));
  for (int i = 0; i < kStorm; ++i) {
    storm_kernel<<<1, 32>>>();
    if (i % 512 == 511) check(cudaDeviceSynchronize());
  }
  check(cudaDeviceSynchronize());
  print(kStorm, 0, kStorm, 0);
}

void run_seconds(double seconds) {
  const Buffers buffers;
  int steps = 0;
  for (const double end_s = now_s() + seconds; now_s() < end_s; ++steps) {
    step(buffers, nullptr);
    check(cudaStreamSynchronize(nullptr));
    pause_ms(2);
  }
  print(steps, steps, steps, kKernelNs);
}

}  // namespace

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  if (std::strcmp(how, "kernels") == 0) {
    run_kernels();
  } else if (std::strcmp(how, "graph") == 0) {
    run_graph();
  } else if (std::strcmp(how, "threads") == 0) {
    run_threads();
  } else if (std::strcmp(how, "storm") == 0) {
    run_storm();
  } else if (std::strcmp(how, "seconds") == 0 && argc > 2) {
    run_seconds(std::atof(argv[2]));
  } else {
    std::fprintf(stderr, "usage: known_work kernels|graph|threads|storm|seconds N\n");
    return 2;
  }
  return 0;
}
