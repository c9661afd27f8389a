// SPDX-License-Identifier: Apache-2.0
// cuInit, devices, primary and other contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device/graph.h"
#include "device/memory.h"
#include "device/schedule.h"
#include "device/settings.h"
#include "driver/driver.h"

using simgpu::Context;
using simgpu::current_context;
using simgpu::Device;
using simgpu::device_at;
using simgpu::initialized;
using simgpu::need_context;
using simgpu::thread_state;
using simgpu::ThreadState;
using simgpu::to_context;

namespace simgpu {

int device_attribute(int attribute, int ordinal) {
  static const struct {
    int attribute;
    int value;
  } kRows[] = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 * 1024},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 * 1024},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1500000},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
      {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
      {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2600000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 32 << 20},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 * 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 * 1024},
      {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
  };
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) return ordinal;
  for (const auto& row : kRows) {
    if (row.attribute == attribute) return row.value;
  }
  return 0;
}

}  // namespace simgpu

namespace {

CUresult push(Context* context) {
  ThreadState& state = thread_state();
  if (state.depth == ThreadState::kDepth) return CUDA_ERROR_INVALID_CONTEXT;
  state.stack[state.depth++] = context;
  return CUDA_SUCCESS;
}

CUcontext handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

Context* context_or_current(CUcontext context) {
  return context ? to_context(context) : current_context();
}

CUresult need_device(CUdevice ordinal, Device** device) {
  if (!initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  *device = device_at(ordinal);
  return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

#define SIMGPU_DEVICE(variable, ordinal) \
  Device* variable = nullptr;            \
  SIMGPU_TRY(need_device(ordinal, &variable))

}  // namespace

CUresult DRV(cuInit)(unsigned int) { return simgpu::initialize(); }

CUresult DRV(cuDriverGetVersion)(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGet)(CUdevice* device, int ordinal) {
  SIMGPU_DEVICE(found, ordinal);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetCount)(int* count) {
  if (!initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  *count = simgpu::device_count();
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetName)(char* name, int len, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  std::snprintf(name, static_cast<size_t>(len), "Simulated CUDA Device");
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetUuid_v2)(CUuuid* uuid, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  simgpu::DeviceSummary summary;
  simgpu::summarize_device(dev, &summary);
  std::memcpy(uuid->bytes, summary.uuid, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetUuid)(CUuuid* uuid, CUdevice dev) {
  return DRV(cuDeviceGetUuid_v2)(uuid, dev);
}

CUresult DRV(cuDeviceTotalMem_v2)(size_t* bytes, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  *bytes = simgpu::settings().memory_bytes;
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetAttribute)(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  if (attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *pi = simgpu::device_attribute(attrib, dev);
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceComputeCapability)(int* major, int* minor, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  *major = simgpu::device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
  *minor = simgpu::device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetPCIBusId)(char* pciBusId, int len, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  std::snprintf(pciBusId, static_cast<size_t>(len), "0000:01:%02x.0", static_cast<unsigned>(dev));
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetByPCIBusId)(CUdevice* dev, const char* pciBusId) {
  unsigned ordinal = 0;
  if (std::sscanf(pciBusId, "%*x:%*x:%x", &ordinal) != 1) return CUDA_ERROR_INVALID_VALUE;
  SIMGPU_DEVICE(device, static_cast<int>(ordinal));
  *dev = static_cast<int>(ordinal);
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceCanAccessPeer)(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  SIMGPU_DEVICE(device, dev);
  SIMGPU_DEVICE(peer, peerDev);
  *canAccessPeer = dev != peerDev;
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetP2PAttribute)(int* value, CUdevice_P2PAttribute, CUdevice srcDevice,
                                      CUdevice dstDevice) {
  SIMGPU_DEVICE(source, srcDevice);
  SIMGPU_DEVICE(destination, dstDevice);
  *value = 1;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxEnablePeerAccess)(CUcontext peerContext, unsigned int) {
  return to_context(peerContext) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult DRV(cuCtxDisablePeerAccess)(CUcontext peerContext) {
  return to_context(peerContext) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult DRV(cuDevicePrimaryCtxRetain)(CUcontext* pctx, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  static std::mutex creation;  // two threads may come here with their first calls
  std::lock_guard<std::mutex> lock(creation);
  if (device->primary == nullptr || device->primary->destroyed) {
    device->primary = simgpu::create_context(device, true, device->primary_flags);
    device->primary_uses = 0;
  }
  ++device->primary_uses;
  *pctx = handle(device->primary);
  return CUDA_SUCCESS;
}

CUresult DRV(cuDevicePrimaryCtxRelease_v2)(CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  if (device->primary == nullptr || device->primary_uses == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_uses == 0) {
    simgpu::destroy_context(device->primary);
    device->primary = nullptr;
  }
  return CUDA_SUCCESS;
}

CUresult DRV(cuDevicePrimaryCtxReset_v2)(CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  if (device->primary == nullptr) return CUDA_SUCCESS;
  simgpu::destroy_context(device->primary);
  device->primary = nullptr;
  device->primary_uses = 0;
  return CUDA_SUCCESS;
}

CUresult DRV(cuDevicePrimaryCtxSetFlags_v2)(CUdevice dev, unsigned int flags) {
  SIMGPU_DEVICE(device, dev);
  device->primary_flags = flags;
  if (device->primary) device->primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult DRV(cuDevicePrimaryCtxGetState)(CUdevice dev, unsigned int* flags, int* active) {
  SIMGPU_DEVICE(device, dev);
  *flags = device->primary_flags;
  *active = device->primary != nullptr;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxCreate_v2)(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  SIMGPU_DEVICE(device, dev);
  Context* context = simgpu::create_context(device, false, flags);
  *pctx = handle(context);
  return push(context);
}

CUresult DRV(cuCtxCreate_v4)(CUcontext* pctx, CUctxCreateParams*, unsigned int flags,
                             CUdevice dev) {
  return DRV(cuCtxCreate_v2)(pctx, flags, dev);
}

CUresult DRV(cuCtxDestroy_v2)(CUcontext ctx) {
  Context* context = to_context(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  simgpu::destroy_context(context);
  ThreadState& state = thread_state();
  if (state.depth > 0 && state.stack[state.depth - 1] == context) --state.depth;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxPushCurrent_v2)(CUcontext ctx) {
  Context* context = to_context(ctx);
  return context ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult DRV(cuCtxPopCurrent_v2)(CUcontext* pctx) {
  ThreadState& state = thread_state();
  if (state.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = state.stack[--state.depth];
  if (pctx) *pctx = handle(context);
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxSetCurrent)(CUcontext ctx) {
  if (!initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  ThreadState& state = thread_state();
  if (ctx == nullptr) {
    if (state.depth > 0) --state.depth;
    return CUDA_SUCCESS;
  }
  Context* context = to_context(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (state.depth == 0) state.depth = 1;
  state.stack[state.depth - 1] = context;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetCurrent)(CUcontext* pctx) {
  if (!initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  *pctx = handle(current_context());
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetDevice)(CUdevice* device) {
  SIMGPU_CONTEXT(context);
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetDevice_v2)(CUdevice* device, CUcontext ctx) {
  Context* context = context_or_current(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetId)(CUcontext ctx, unsigned long long* ctxId) {
  Context* context = context_or_current(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetFlags)(unsigned int* flags) {
  SIMGPU_CONTEXT(context);
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetApiVersion)(CUcontext, unsigned int* version) {
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxSynchronize)(void) {
  SIMGPU_CONTEXT(context);
  SIMGPU_TRY(simgpu::refuse_wait_in_capture(context));
  simgpu::synchronize_context(context, simgpu::WaitKind::context, true);
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxSynchronize_v2)(CUcontext ctx) {
  Context* context = context_or_current(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  SIMGPU_TRY(simgpu::refuse_wait_in_capture(context));
  simgpu::synchronize_context(context, simgpu::WaitKind::context, true);
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetStreamPriorityRange)(int* leastPriority, int* greatestPriority) {
  if (leastPriority) *leastPriority = 0;
  if (greatestPriority) *greatestPriority = -5;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetLimit)(size_t* pvalue, CUlimit limit) {
  SIMGPU_CONTEXT(context);
  *pvalue = limit == CU_LIMIT_STACK_SIZE ? 1024 : 8 << 20;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxSetLimit)(CUlimit, size_t) {
  SIMGPU_CONTEXT(context);
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxGetCacheConfig)(CUfunc_cache* pconfig) {
  SIMGPU_CONTEXT(context);
  *pconfig = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

CUresult DRV(cuCtxSetCacheConfig)(CUfunc_cache) {
  SIMGPU_CONTEXT(context);
  return CUDA_SUCCESS;
}

CUresult DRV(cuProfilerStart)(void) { return CUDA_SUCCESS; }
CUresult DRV(cuProfilerStop)(void) { return CUDA_SUCCESS; }
