// SPDX-License-Identifier: Apache-2.0
// Devices: choice, properties, synchronization, limits, peers.
#include <cstring>

#include "runtime/runtime.h"

using simrt::driver;
using simrt::finish;

namespace {

#define SIMRT_DRIVER()                                                 \
  do {                                                                 \
    cudaError_t driver_error = simrt::need_driver();                   \
    if (driver_error != cudaSuccess) return simrt::fail(driver_error); \
  } while (false)

int attribute(CUdevice_attribute number, int device) {
  int value = 0;
  driver().cuDeviceGetAttribute(&value, number, device);
  return value;
}

cudaError_t check_device(int device) {
  int count = 0;
  driver().cuDeviceGetCount(&count);
  return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

}  // namespace

cudaError_t RT(cudaGetDeviceCount)(int* count) {
  *count = 0;
  SIMRT_DRIVER();
  return finish(driver().cuDeviceGetCount(count));
}

cudaError_t RT(cudaSetDevice)(int device) {
  SIMRT_DRIVER();
  cudaError_t error = check_device(device);
  if (error != cudaSuccess) return simrt::fail(error);
  simrt::ThreadState& state = simrt::thread_state();
  CUdevice current = -1;
  if (driver().cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
    state.device = device;
    return cudaSuccess;
  }
  state.device = device;
  driver().cuCtxSetCurrent(nullptr);
  return simrt::fail(simrt::need_context());
}

cudaError_t RT(cudaGetDevice)(int* device) {
  SIMRT_DRIVER();
  CUdevice current = 0;
  *device =
      driver().cuCtxGetDevice(&current) == CUDA_SUCCESS ? current : simrt::thread_state().device;
  return cudaSuccess;
}

cudaError_t RT(cudaInitDevice)(int device, unsigned int deviceFlags, unsigned int) {
  SIMRT_DRIVER();
  cudaError_t error = check_device(device);
  if (error != cudaSuccess) return simrt::fail(error);
  return finish(driver().cuDevicePrimaryCtxSetFlags(device, deviceFlags));
}

cudaError_t RT(cudaSetDeviceFlags)(unsigned int flags) {
  SIMRT_DRIVER();
  return finish(driver().cuDevicePrimaryCtxSetFlags(simrt::thread_state().device, flags));
}

cudaError_t RT(cudaGetDeviceFlags)(unsigned int* flags) {
  SIMRT_DRIVER();
  int active = 0;
  return finish(driver().cuDevicePrimaryCtxGetState(simrt::thread_state().device, flags, &active));
}

cudaError_t RT(cudaSetValidDevices)(int*, int) { return cudaSuccess; }

cudaError_t RT(cudaChooseDevice)(int* device, const cudaDeviceProp*) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t RT(cudaGetDeviceProperties)(cudaDeviceProp* prop, int device) {
  SIMRT_DRIVER();
  cudaError_t error = check_device(device);
  if (error != cudaSuccess) return simrt::fail(error);
  *prop = {};
  auto get = [device](CUdevice_attribute number) { return attribute(number, device); };
  auto get_size = [device](CUdevice_attribute number) {
    return static_cast<size_t>(attribute(number, device));
  };
  driver().cuDeviceGetName(prop->name, sizeof prop->name, device);
  CUuuid uuid;
  driver().cuDeviceGetUuid(&uuid, device);
  std::memcpy(prop->uuid.bytes, uuid.bytes, sizeof uuid.bytes);
  driver().cuDeviceTotalMem(&prop->totalGlobalMem, device);
  prop->sharedMemPerBlock = get_size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->warpSize = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = get_size(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  prop->maxThreadsDim[0] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  prop->maxThreadsDim[1] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  prop->maxThreadsDim[2] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  prop->maxGridSize[0] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  prop->maxGridSize[1] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  prop->maxGridSize[2] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  prop->totalConstMem = get_size(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  prop->minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  prop->textureAlignment = get_size(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  prop->texturePitchAlignment = get_size(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  prop->multiProcessorCount = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  prop->canMapHostMemory = 1;
  prop->surfaceAlignment = get_size(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  prop->concurrentKernels = 1;
  prop->pciBusID = get(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  prop->pciDeviceID = get(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  prop->asyncEngineCount = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  prop->unifiedAddressing = 1;
  prop->memoryBusWidth = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  prop->l2CacheSize = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  prop->maxThreadsPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  prop->streamPrioritiesSupported = 1;
  prop->globalL1CacheSupported = 1;
  prop->localL1CacheSupported = 1;
  prop->sharedMemPerMultiprocessor =
      get_size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  prop->regsPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  prop->managedMemory = 1;
  prop->concurrentManagedAccess = 1;
  prop->computePreemptionSupported = 1;
  prop->canUseHostPointerForRegisteredMem = 1;
  prop->cooperativeLaunch = 1;
  prop->sharedMemPerBlockOptin = get_size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  prop->maxBlocksPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  prop->reservedSharedMemPerBlock = get_size(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  prop->hostRegisterSupported = 1;
  prop->memoryPoolsSupported = 1;
  prop->clusterLaunch = 1;
  prop->unifiedFunctionPointers = 1;
  return cudaSuccess;
}

cudaError_t RT(cudaDeviceGetAttribute)(int* value, cudaDeviceAttr attr, int device) {
  SIMRT_DRIVER();
  return finish(
      driver().cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device));
}

cudaError_t RT(cudaDeviceGetPCIBusId)(char* pciBusId, int len, int device) {
  SIMRT_DRIVER();
  return finish(driver().cuDeviceGetPCIBusId(pciBusId, len, device));
}

cudaError_t RT(cudaDeviceGetByPCIBusId)(int* device, const char* pciBusId) {
  SIMRT_DRIVER();
  return finish(driver().cuDeviceGetByPCIBusId(device, pciBusId));
}

cudaError_t RT(cudaDeviceSynchronize)(void) {
  SIMRT_CONTEXT();
  return finish(driver().cuCtxSynchronize());
}

cudaError_t RT(cudaDeviceReset)(void) {
  SIMRT_DRIVER();
  int device = simrt::thread_state().device;
  simrt::forget_context(device);
  return finish(driver().cuDevicePrimaryCtxReset(device));
}

cudaError_t RT(cudaDeviceGetLimit)(size_t* pValue, cudaLimit limit) {
  SIMRT_CONTEXT();
  return finish(driver().cuCtxGetLimit(pValue, static_cast<CUlimit>(limit)));
}

cudaError_t RT(cudaDeviceSetLimit)(cudaLimit limit, size_t value) {
  SIMRT_CONTEXT();
  return finish(driver().cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}

cudaError_t RT(cudaDeviceGetCacheConfig)(cudaFuncCache* pCacheConfig) {
  SIMRT_CONTEXT();
  *pCacheConfig = cudaFuncCachePreferNone;
  return cudaSuccess;
}

cudaError_t RT(cudaDeviceSetCacheConfig)(cudaFuncCache) {
  SIMRT_CONTEXT();
  return cudaSuccess;
}

cudaError_t RT(cudaDeviceGetStreamPriorityRange)(int* leastPriority, int* greatestPriority) {
  SIMRT_CONTEXT();
  return finish(driver().cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t RT(cudaDeviceCanAccessPeer)(int* canAccessPeer, int device, int peerDevice) {
  SIMRT_DRIVER();
  return finish(driver().cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

cudaError_t RT(cudaDeviceEnablePeerAccess)(int peerDevice, unsigned int) {
  SIMRT_CONTEXT();
  return simrt::fail(check_device(peerDevice));
}

cudaError_t RT(cudaDeviceDisablePeerAccess)(int peerDevice) {
  SIMRT_CONTEXT();
  return simrt::fail(check_device(peerDevice));
}

cudaError_t RT(cudaDeviceGetP2PAttribute)(int* value, cudaDeviceP2PAttr attr, int srcDevice,
                                          int dstDevice) {
  SIMRT_DRIVER();
  return finish(driver().cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attr),
                                                 srcDevice, dstDevice));
}
