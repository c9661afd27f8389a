// SPDX-License-Identifier: Apache-2.0
// What the files of the runtime share. RT(cudaX) names the implementation of cudaX; the exported
// function, with callbacks and per-thread stream variant, is generated around it. The driver is
// reached as the vendor's runtime does: dlopen, then everything through cuGetProcAddress.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/tool.h"
#include "driver_table.h"
#include "runtime_impl.h"

#define RT(name) impl_##name

namespace simrt {

struct ThreadState {
  cudaError_t last_error;
  int device;
  bool device_chosen;
  bool per_thread_default;
  struct {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    cudaStream_t stream;
  } configuration[4];  // <<<>>> may stand in an argument of another <<<>>>
  int configurations;
};
ThreadState& thread_state();

/// The entry points of the driver; those of the per-thread default stream inside _ptsz functions.
extern DriverTable driver_tables[2];
inline const DriverTable& driver() {
  return driver_tables[thread_state().per_thread_default ? 1 : 0];
}

/// Loads the driver, not initializing it. Without a driver the hub is an empty one.
simgpu::Hub* runtime_hub();

/// Makes errors of the driver those of the runtime; all but "not ready" become the last error.
cudaError_t finish(CUresult result);
cudaError_t fail(cudaError_t error);

/// cuInit; and the primary context of the thread's device if it has none.
cudaError_t need_driver();
cudaError_t need_context();
void forget_context(int device);

#define SIMRT_CONTEXT()                                                  \
  do {                                                                   \
    cudaError_t context_error = simrt::need_context();                   \
    if (context_error != cudaSuccess) return simrt::fail(context_error); \
  } while (false)

/// The kernel behind a host address, a cudaKernel_t or a cudaFunction_t; null if there is none.
CUkernel find_kernel(const void* symbol);
const char* kernel_name(const void* symbol);

/// Address and size of a device variable by its host address.
cudaError_t find_symbol(const void* symbol, CUdeviceptr* address, size_t* bytes);

class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream() : before_(thread_state().per_thread_default) {
    thread_state().per_thread_default = true;
  }
  ~PerThreadDefaultStream() { thread_state().per_thread_default = before_; }

 private:
  bool before_;
};

inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace simrt
