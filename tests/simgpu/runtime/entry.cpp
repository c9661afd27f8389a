// SPDX-License-Identifier: Apache-2.0
// The exported functions (generated around the implementations), the way to the driver, errors.
#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "device/settings.h"
#include "generated_cuda_runtime_api_meta.h"
#include "runtime/runtime.h"

#define SIMGPU_EXPORT extern "C" __attribute__((visibility("default")))

// Tells a program with this runtime inside from one with the vendor's; see refuse_static.sh.
SIMGPU_EXPORT const char simgpu_runtime_marker[];
SIMGPU_EXPORT __attribute__((used)) const char simgpu_runtime_marker[] = "SIMGPU_RUNTIME_MARKER";

namespace simrt {

DriverTable driver_tables[2];

namespace {

std::atomic<simgpu::Hub*> loaded_hub{nullptr};
std::atomic<CUcontext> primary[16];
std::mutex mutex;
bool has_driver = false;

uint32_t no_call() { return 0; }
simgpu::Hub empty_hub{{nullptr}, no_call};

bool load_table(void* library) {
  using GetProcAddress =
      CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return false;
  bool complete = true;
  for (int i = 0; i < 2; ++i) {
    DriverTable& table = driver_tables[i];
    cuuint64_t flags = i ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
#define SIMGPU_DRIVER_CALL(name, version, field)                                           \
  complete = get(name, reinterpret_cast<void**>(&table.field), version, flags, nullptr) == \
                 CUDA_SUCCESS &&                                                           \
             complete;
#include "driver_table.inc"
#undef SIMGPU_DRIVER_CALL
  }
  return complete;
}

simgpu::Hub* load_driver() {
  std::lock_guard<std::mutex> lock(mutex);
  if (loaded_hub) return loaded_hub;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  using GetHub = simgpu::Hub* (*)();
  auto get_hub = library ? reinterpret_cast<GetHub>(dlsym(library, "simcuda_hub")) : nullptr;
  // This runtime knows the simulated driver only: the real one has no use for it.
  has_driver = get_hub && load_table(library);
  loaded_hub = has_driver ? get_hub() : &empty_hub;
  return loaded_hub;
}

}  // namespace

ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

simgpu::Hub* runtime_hub() {
  simgpu::Hub* hub = loaded_hub.load(std::memory_order_acquire);
  return __builtin_expect(hub != nullptr, 1) ? hub : load_driver();
}

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) thread_state().last_error = error;
  return error;
}

cudaError_t finish(CUresult result) { return fail(static_cast<cudaError_t>(result)); }

cudaError_t need_driver() {
  simgpu::Hub* hub = runtime_hub();
  if (!has_driver) return cudaErrorInsufficientDriver;
  if (hub->initialized()) return cudaSuccess;
  return static_cast<cudaError_t>(driver().cuInit(0));
}

cudaError_t need_context() {
  simgpu::Hub* hub = runtime_hub();
  if (__builtin_expect(has_driver && hub->initialized() && hub->current_context() != nullptr, 1)) {
    return cudaSuccess;
  }
  cudaError_t error = need_driver();
  if (error != cudaSuccess) return error;
  int device = thread_state().device;
  std::lock_guard<std::mutex> lock(mutex);
  CUcontext context = primary[device];
  if (context == nullptr) {
    CUresult result = driver().cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS) return static_cast<cudaError_t>(result);
    primary[device] = context;
  }
  return static_cast<cudaError_t>(driver().cuCtxSetCurrent(context));
}

void forget_context(int device) { primary[device] = nullptr; }

namespace {

const char* launch_symbol(const void* symbol) { return kernel_name(symbol); }

}  // namespace
}  // namespace simrt

cudaError_t RT(cudaGetLastError)(void) {
  cudaError_t error = simrt::thread_state().last_error;
  simrt::thread_state().last_error = cudaSuccess;
  return error;
}

cudaError_t RT(cudaPeekAtLastError)(void) { return simrt::thread_state().last_error; }

const char* RT(cudaGetErrorName)(cudaError_t error) {
  switch (error) {
#define SIMRT_ERROR(name, text) \
  case name:                    \
    return #name;
#include "runtime/errors.inc"
#undef SIMRT_ERROR
    default:
      return "unrecognized error code";
  }
}

const char* RT(cudaGetErrorString)(cudaError_t error) {
  switch (error) {
#define SIMRT_ERROR(name, text) \
  case name:                    \
    return text;
#include "runtime/errors.inc"
#undef SIMRT_ERROR
    default:
      return "unrecognized error code";
  }
}

cudaError_t RT(cudaDriverGetVersion)(int* driverVersion) {
  simrt::runtime_hub();
  if (simrt::driver().cuDriverGetVersion == nullptr) {
    *driverVersion = 0;
    return cudaSuccess;
  }
  return simrt::finish(simrt::driver().cuDriverGetVersion(driverVersion));
}

cudaError_t RT(cudaRuntimeGetVersion)(int* runtimeVersion) {
  *runtimeVersion = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t RT(cudaGetDriverEntryPointByVersion)(const char* symbol, void** funcPtr,
                                                 unsigned int cudaVersion, unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult* driverStatus) {
  cudaError_t error = simrt::need_driver();
  if (error != cudaSuccess) return simrt::fail(error);
  if (simrt::thread_state().per_thread_default && flags == cudaEnableDefault) {
    flags = cudaEnablePerThreadDefaultStream;
  }
  CUdriverProcAddressQueryResult status{};
  CUresult result = simrt::driver().cuGetProcAddress(symbol, funcPtr, static_cast<int>(cudaVersion),
                                                     flags, &status);
  if (driverStatus) *driverStatus = static_cast<cudaDriverEntryPointQueryResult>(status);
  // Documented: an unknown name is no error, the status tells.
  if (result == CUDA_ERROR_NOT_FOUND && driverStatus) return cudaSuccess;
  return simrt::finish(result);
}

cudaError_t RT(cudaGetDriverEntryPoint)(const char* symbol, void** funcPtr,
                                        unsigned long long flags,
                                        cudaDriverEntryPointQueryResult* driverStatus) {
  return RT(cudaGetDriverEntryPointByVersion)(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

cudaError_t RT(cudaProfilerStart)(void) { return cudaSuccess; }
cudaError_t RT(cudaProfilerStop)(void) { return cudaSuccess; }

using simgpu::CallScope;
using simgpu::CallSite;
using simgpu::Hub;
using simgpu::Tool;
using simrt::launch_symbol;
using simrt::PerThreadDefaultStream;
using simrt::runtime_hub;

#include "runtime_exports.inc"
