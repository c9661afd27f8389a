// SPDX-License-Identifier: Apache-2.0
// Launches, by nvcc's code and by explicit callers; properties of functions; occupancy.
#include "runtime/runtime.h"

using simrt::driver;
using simrt::finish;

namespace {

cudaError_t launch(CUkernel kernel, const dim3& grid, const dim3& block, void** args,
                   size_t shared_bytes, cudaStream_t stream) {
  SIMRT_CONTEXT();
  if (kernel == nullptr) return simrt::fail(cudaErrorInvalidDeviceFunction);
  CUresult result = driver().cuLaunchKernel(
      reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
      static_cast<unsigned>(shared_bytes), stream, args, nullptr);
  // The runtime has its own code for a bad shape.
  bool bad_shape =
      result == CUDA_ERROR_INVALID_VALUE &&
      (uint64_t{grid.x} * grid.y * grid.z == 0 || uint64_t{block.x} * block.y * block.z == 0 ||
       uint64_t{block.x} * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535 ||
       block.z > 64);
  return bad_shape ? simrt::fail(cudaErrorInvalidConfiguration) : finish(result);
}

// Kernels are found after the context is there: images are loaded by the driver.
cudaError_t get_kernel(const void* symbol, CUkernel* kernel) {
  SIMRT_CONTEXT();
  *kernel = simrt::find_kernel(symbol);
  return *kernel ? cudaSuccess : simrt::fail(cudaErrorInvalidDeviceFunction);
}

#define SIMRT_KERNEL(variable, symbol)                        \
  CUkernel variable = nullptr;                                \
  do {                                                        \
    cudaError_t kernel_error = get_kernel(symbol, &variable); \
    if (kernel_error != cudaSuccess) return kernel_error;     \
  } while (false)

CUfunction function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

}  // namespace

unsigned RT(__cudaPushCallConfiguration)(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                         CUstream_st* stream) {
  simrt::ThreadState& state = simrt::thread_state();
  if (state.configurations == 4) return 1;
  state.configuration[state.configurations++] = {gridDim, blockDim, sharedMem, stream};
  return 0;
}

cudaError_t RT(__cudaPopCallConfiguration)(dim3* gridDim, dim3* blockDim, size_t* sharedMem,
                                           void* stream) {
  simrt::ThreadState& state = simrt::thread_state();
  if (state.configurations == 0) return simrt::fail(cudaErrorMissingConfiguration);
  const auto& top = state.configuration[--state.configurations];
  *gridDim = top.grid;
  *blockDim = top.block;
  *sharedMem = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

// The caller keeps the handle for ever and does not ask again, so a failure is told at the launch.
cudaError_t RT(__cudaGetKernel)(cudaKernel_t* kernel, const void* func) {
  if (simrt::need_context() == cudaSuccess) *kernel = simrt::find_kernel(func);
  return cudaSuccess;
}

cudaError_t RT(__cudaLaunchKernel)(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                                   size_t sharedMem, cudaStream_t stream) {
  return launch(kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t RT(cudaLaunchKernel)(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                                 size_t sharedMem, cudaStream_t stream) {
  SIMRT_KERNEL(kernel, func);
  return launch(kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t RT(cudaLaunchCooperativeKernel)(const void* func, dim3 gridDim, dim3 blockDim,
                                            void** args, size_t sharedMem, cudaStream_t stream) {
  SIMRT_KERNEL(kernel, func);
  return launch(kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t RT(cudaLaunchKernelExC)(const cudaLaunchConfig_t* config, const void* func,
                                    void** args) {
  SIMRT_KERNEL(kernel, func);
  return launch(kernel, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                config->stream);
}

cudaError_t RT(cudaGetKernel)(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  SIMRT_KERNEL(kernel, entryFuncAddr);
  *kernelPtr = kernel;
  return cudaSuccess;
}

cudaError_t RT(cudaGetFuncBySymbol)(cudaFunction_t* functionPtr, const void* symbolPtr) {
  SIMRT_KERNEL(kernel, symbolPtr);
  *functionPtr = function(kernel);
  return cudaSuccess;
}

cudaError_t RT(cudaFuncGetName)(const char** name, const void* func) {
  SIMRT_KERNEL(kernel, func);
  return finish(driver().cuKernelGetName(name, kernel));
}

cudaError_t RT(cudaFuncGetAttributes)(cudaFuncAttributes* attr, const void* func) {
  SIMRT_KERNEL(kernel, func);
  auto get = [kernel](CUfunction_attribute attribute) {
    int value = 0;
    driver().cuFuncGetAttribute(&value, attribute, function(kernel));
    return value;
  };
  *attr = {};
  attr->sharedSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  attr->constSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  attr->localSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  attr->maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  attr->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  attr->ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  attr->binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  attr->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  attr->preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  return cudaSuccess;
}

cudaError_t RT(cudaFuncSetAttribute)(const void* func, cudaFuncAttribute attr, int value) {
  SIMRT_KERNEL(kernel, func);
  return finish(driver().cuFuncSetAttribute(function(kernel),
                                            static_cast<CUfunction_attribute>(attr), value));
}

cudaError_t RT(cudaFuncSetCacheConfig)(const void* func, cudaFuncCache cacheConfig) {
  SIMRT_KERNEL(kernel, func);
  return finish(
      driver().cuFuncSetCacheConfig(function(kernel), static_cast<CUfunc_cache>(cacheConfig)));
}

cudaError_t RT(cudaFuncGetParamInfo)(const void* func, size_t paramIndex, size_t* paramOffset,
                                     size_t* paramSize) {
  SIMRT_KERNEL(kernel, func);
  return finish(driver().cuFuncGetParamInfo(function(kernel), paramIndex, paramOffset, paramSize));
}

cudaError_t RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
    int* numBlocks, const void* func, int blockSize, size_t dynamicSMemSize, unsigned int flags) {
  SIMRT_KERNEL(kernel, func);
  return finish(driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      numBlocks, function(kernel), blockSize, dynamicSMemSize, flags));
}

cudaError_t RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(int* numBlocks, const void* func,
                                                              int blockSize,
                                                              size_t dynamicSMemSize) {
  return RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(numBlocks, func, blockSize,
                                                                    dynamicSMemSize, 0);
}

cudaError_t RT(cudaOccupancyAvailableDynamicSMemPerBlock)(size_t* dynamicSmemSize, const void* func,
                                                          int numBlocks, int blockSize) {
  SIMRT_KERNEL(kernel, func);
  return finish(driver().cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function(kernel),
                                                                 numBlocks, blockSize));
}
