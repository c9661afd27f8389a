// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/occupancy_oracle.h"

#include <cuda_occupancy.h>

#include <climits>
#include <stdexcept>

namespace gpuidle::tests {

std::uint32_t oracle_blocks(const OracleDevice& device, const model::Kernel& kernel,
                            bool is_opt_in) {
  cudaOccDeviceProp properties;
  properties.computeMajor = static_cast<int>(device.major);
  properties.computeMinor = static_cast<int>(device.minor);
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsPerMultiprocessor = static_cast<int>(device.threads);
  properties.regsPerBlock = 65536;
  properties.regsPerMultiprocessor = 65536;
  properties.warpSize = 32;
  properties.sharedMemPerBlock = 48 * 1024;
  properties.sharedMemPerMultiprocessor = device.shared * 1024;
  properties.numSms = 100;
  properties.sharedMemPerBlockOptin = device.shared_opt_in * 1024;
  properties.reservedSharedMemPerBlock = device.major >= 8 ? 1024 : 0;

  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = INT_MAX;
  attributes.numRegs = static_cast<int>(kernel.registers_per_thread);
  attributes.sharedSizeBytes = kernel.static_shared_bytes;
  attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
  attributes.shmemLimitConfig = is_opt_in ? FUNC_SHMEM_LIMIT_OPTIN : FUNC_SHMEM_LIMIT_DEFAULT;
  attributes.maxDynamicSharedSizeBytes = kernel.dynamic_shared_bytes;
  attributes.numBlockBarriers = 0;

  // The whole of the shared memory, as the driver gives it where blocks could use it.
  cudaOccDeviceState state;
  state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
  state.cacheConfig = CACHE_PREFER_SHARED;

  cudaOccResult result;
  const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &properties, &attributes, &state, static_cast<int>(kernel.block[0]),
      kernel.dynamic_shared_bytes);
  if (error != CUDA_OCC_SUCCESS) throw std::runtime_error("the calculator refuses its input");
  return static_cast<std::uint32_t>(result.activeBlocksPerMultiprocessor);
}

}  // namespace gpuidle::tests
