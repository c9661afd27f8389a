// SPDX-License-Identifier: Apache-2.0
//
// What the example kernels do on a real GPU: occupy it for a given time. (The simulated device does
// not execute kernels; there the *.simgpu files give the same times.) Plus the error check.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__device__ inline void spin_for(long long duration_ns) {
  long long begin;
  long long current;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(current));
  } while (current - begin < duration_ns);
}

// Ends the program with one line if a CUDA call failed.
inline void check(cudaError_t result) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "CUDA error %d: %s\n", static_cast<int>(result), cudaGetErrorString(result));
  std::exit(1);
}
