// SPDX-License-Identifier: Apache-2.0
//
// GPU work for the programs of the process tests: a copy and a kernel per step, without device
// code, so that no nvcc is needed. A CUDA error ends the program with status 9.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

class DeviceFeeder {
 public:
  DeviceFeeder() {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaMalloc(&device_buffer_, kBytes), "cudaMalloc");
    check(cudaMallocHost(&host_buffer_, kBytes), "cudaMallocHost");
    CUmodule module = nullptr;
    check(cuModuleLoadData(&module, kPtx), "cuModuleLoadData");
    check(cuModuleGetFunction(&kernel_, module, "step_kernel"), "cuModuleGetFunction");
  }

  /// For other threads than the one that made this.
  void use_in_this_thread() { check(cudaSetDevice(0), "cudaSetDevice"); }

  void launch() {
    check(cuLaunchKernel(kernel_, 8, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr),
          "cuLaunchKernel");
  }

  __attribute__((noinline)) void step() {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    check(cudaMemcpyAsync(device_buffer_, host_buffer_, kBytes, cudaMemcpyHostToDevice, nullptr),
          "cudaMemcpyAsync");
    launch();
  }

  void synchronize() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    synchronize();
  }

 private:
  static constexpr char kPtx[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry step_kernel()\n{\n  ret;\n}\n";
  static constexpr std::size_t kBytes = 1u << 20;

  static void check(int result, const char* call) {
    if (result == 0) return;
    std::fprintf(stderr, "%s failed with CUDA error %d\n", call, result);
    std::exit(9);
  }

  void* device_buffer_ = nullptr;
  void* host_buffer_ = nullptr;
  CUfunction kernel_ = nullptr;
};
