// SPDX-License-Identifier: Apache-2.0
// Kernel launches, properties of functions, occupancy.
#include "driver/launch.h"

#include <algorithm>

#include "device/settings.h"
#include "driver/driver.h"

namespace simgpu {

CUresult check_launch(const Kernel* kernel, const uint32_t (&grid)[3], const uint32_t (&block)[3],
                      uint32_t shared_bytes) {
  constexpr uint64_t kMaxThreads = 1024;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || block[0] == 0 || block[1] == 0 ||
      block[2] == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (uint64_t{block[0]} * block[1] * block[2] > kMaxThreads || block[2] > 64 ||
      grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return shared_bytes > kernel->max_dynamic_shared_bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

Work kernel_work(Kernel* kernel, const uint32_t (&grid)[3], const uint32_t (&block)[3],
                 uint32_t shared_bytes) {
  Work work;
  work.kernel = kernel;
  work.duration_ns = kernel->duration_ns;
  Operation& operation = work.operation;
  operation.kind = OperationKind::kernel;
  operation.async = true;
  operation.name = kernel->name;
  operation.peer_device = UINT32_MAX;
  std::copy(grid, grid + 3, operation.grid);
  std::copy(block, block + 3, operation.block);
  operation.registers = kernel->registers;
  operation.static_shared_bytes = kernel->static_shared_bytes;
  operation.dynamic_shared_bytes = shared_bytes;
  return work;
}

const char* launch_symbol(CUfunction function) {
  Kernel* kernel = to_kernel(function);
  return kernel ? kernel->name : nullptr;
}

}  // namespace simgpu

using simgpu::Kernel;
using simgpu::Stream;
using simgpu::to_kernel;
using simgpu::to_stream;

namespace {

constexpr int kMaxThreadsPerBlock = 1024;

CUresult launch(CUfunction f, const uint32_t (&grid)[3], const uint32_t (&block)[3],
                uint32_t shared_bytes, CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  Kernel* kernel = to_kernel(f);
  SIMGPU_TRY(simgpu::check_launch(kernel, grid, block, shared_bytes));
  if (int64_t code = simgpu::fault("launch"); code > 1) return static_cast<CUresult>(code);
  return simgpu::submit(stream, simgpu::kernel_work(kernel, grid, block, shared_bytes), nullptr);
}

CUresult function_attribute(int* value, CUfunction_attribute attribute, Kernel* kernel) {
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = kMaxThreadsPerBlock;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel->static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(kernel->registers);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      // The image's architecture and not the device's: CUB chooses its tuning by it.
      *value = kernel->library->sm;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel->max_dynamic_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = kernel->carveout;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult set_function_attribute(CUfunction_attribute attribute, int value, Kernel* kernel) {
  constexpr int kMaxDynamicBytes = 227 * 1024;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value > kMaxDynamicBytes) return CUDA_ERROR_INVALID_VALUE;
    kernel->max_dynamic_shared_bytes = static_cast<uint32_t>(value);
  } else if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    kernel->carveout = value;
  }
  return CUDA_SUCCESS;
}

CUresult parameter_info(Kernel* kernel, size_t index, size_t* offset, size_t* size) {
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (index >= kernel->parameter_sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel->parameter_offsets[index];
  if (size) *size = kernel->parameter_sizes[index];
  return CUDA_SUCCESS;
}

int blocks_per_multiprocessor(const Kernel* kernel, int block_size, size_t dynamic_bytes) {
  auto attribute = [](int number) { return simgpu::device_attribute(number, 0); };
  if (block_size <= 0 || block_size > kMaxThreadsPerBlock) return 0;
  int warps = (block_size + 31) / 32;
  int by_threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / (warps * 32);
  int by_registers = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) /
                     (std::max<int>(static_cast<int>(kernel->registers), 1) * warps * 32);
  size_t shared = kernel->static_shared_bytes + dynamic_bytes + 1024;
  int by_shared = static_cast<int>(
      static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)) /
      shared);
  return std::min({by_threads, by_registers, by_shared,
                   attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)});
}

CUresult potential_block_size(int* min_grid, int* block, CUfunction func,
                              CUoccupancyB2DSize dynamic_of, size_t dynamic_bytes, int limit) {
  Kernel* kernel = to_kernel(func);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  int top = limit > 0 ? std::min(limit, kMaxThreadsPerBlock) : kMaxThreadsPerBlock;
  int best = 0;
  for (int size = top; size >= 32; size -= 32) {
    size_t bytes = dynamic_of ? dynamic_of(size) : dynamic_bytes;
    int blocks = blocks_per_multiprocessor(kernel, size, bytes);
    if (blocks * size > best) {
      best = blocks * size;
      *block = size;
      *min_grid = blocks * simgpu::device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    }
  }
  return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult DRV(cuLaunchKernel)(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                             void**, void**) {
  return launch(f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},
                sharedMemBytes, hStream);
}

CUresult DRV(cuLaunchCooperativeKernel)(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                        unsigned int gridDimZ, unsigned int blockDimX,
                                        unsigned int blockDimY, unsigned int blockDimZ,
                                        unsigned int sharedMemBytes, CUstream hStream, void**) {
  return launch(f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},
                sharedMemBytes, hStream);
}

CUresult DRV(cuLaunchKernelEx)(const CUlaunchConfig* config, CUfunction f, void**, void**) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch(f, {config->gridDimX, config->gridDimY, config->gridDimZ},
                {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                config->hStream);
}

CUresult DRV(cuFuncGetAttribute)(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  return function_attribute(pi, attrib, to_kernel(hfunc));
}
CUresult DRV(cuFuncSetAttribute)(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return set_function_attribute(attrib, value, to_kernel(hfunc));
}
CUresult DRV(cuKernelGetAttribute)(int* pi, CUfunction_attribute attrib, CUkernel kernel,
                                   CUdevice) {
  return function_attribute(pi, attrib, to_kernel(kernel));
}
CUresult DRV(cuKernelSetAttribute)(CUfunction_attribute attrib, int val, CUkernel kernel,
                                   CUdevice) {
  return set_function_attribute(attrib, val, to_kernel(kernel));
}
CUresult DRV(cuFuncSetCacheConfig)(CUfunction hfunc, CUfunc_cache) {
  return to_kernel(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult DRV(cuKernelSetCacheConfig)(CUkernel kernel, CUfunc_cache, CUdevice) {
  return to_kernel(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult DRV(cuFuncGetName)(const char** name, CUfunction hfunc) {
  *name = simgpu::launch_symbol(hfunc);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult DRV(cuKernelGetName)(const char** name, CUkernel hfunc) {
  *name = simgpu::launch_symbol(reinterpret_cast<CUfunction>(hfunc));
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult DRV(cuFuncGetParamInfo)(CUfunction func, size_t paramIndex, size_t* paramOffset,
                                 size_t* paramSize) {
  return parameter_info(to_kernel(func), paramIndex, paramOffset, paramSize);
}
CUresult DRV(cuKernelGetParamInfo)(CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                                   size_t* paramSize) {
  return parameter_info(to_kernel(kernel), paramIndex, paramOffset, paramSize);
}

CUresult DRV(cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* numBlocks, CUfunction func,
                                                          int blockSize, size_t dynamicSMemSize) {
  Kernel* kernel = to_kernel(func);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *numBlocks = blocks_per_multiprocessor(kernel, blockSize, dynamicSMemSize);
  return CUDA_SUCCESS;
}
CUresult DRV(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int* numBlocks, CUfunction func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int) {
  return DRV(cuOccupancyMaxActiveBlocksPerMultiprocessor)(numBlocks, func, blockSize,
                                                          dynamicSMemSize);
}
CUresult DRV(cuOccupancyMaxPotentialBlockSize)(int* minGridSize, int* blockSize, CUfunction func,
                                               CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                               size_t dynamicSMemSize, int blockSizeLimit) {
  return potential_block_size(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                              dynamicSMemSize, blockSizeLimit);
}
CUresult DRV(cuOccupancyMaxPotentialBlockSizeWithFlags)(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int) {
  return potential_block_size(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                              dynamicSMemSize, blockSizeLimit);
}
CUresult DRV(cuOccupancyAvailableDynamicSMemPerBlock)(size_t* dynamicSmemSize, CUfunction func,
                                                      int numBlocks, int) {
  if (to_kernel(func) == nullptr || numBlocks <= 0) return CUDA_ERROR_INVALID_VALUE;
  *dynamicSmemSize = 48 * 1024;
  return CUDA_SUCCESS;
}
