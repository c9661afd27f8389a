// SPDX-License-Identifier: Apache-2.0
// Allocation, pools, pointer attributes.
#include "device/memory.h"

#include <cstring>

#include "device/graph.h"
#include "device/schedule.h"
#include "device/settings.h"
#include "driver/driver.h"

using simgpu::Allocation;
using simgpu::Context;
using simgpu::Device;
using simgpu::device_at;
using simgpu::MemoryKind;
using simgpu::MemoryPool;
using simgpu::need_context;
using simgpu::Stream;
using simgpu::to_pool;
using simgpu::to_stream;

namespace {

constexpr size_t kPitchBytes = 512;

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
CUmemoryPool handle(MemoryPool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }

CUresult allocate_device(CUdeviceptr* dptr, MemoryKind kind, size_t bytes, unsigned flags,
                         MemoryPool* pool) {
  SIMGPU_CONTEXT(context);
  if (dptr == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* address = simgpu::allocate(context, kind, bytes, flags, pool);
  *dptr = reinterpret_cast<CUdeviceptr>(address);
  return address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult allocate_host(void** pp, size_t bytes, unsigned flags) {
  SIMGPU_CONTEXT(context);
  if (pp == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *pp = simgpu::allocate(context, MemoryKind::pinned, bytes, flags, nullptr);
  return *pp ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

MemoryPool* current_pool(Device* device) {
  return device->current_pool ? device->current_pool : simgpu::default_pool(device);
}

CUresult free_device(CUdeviceptr dptr) {
  SIMGPU_CONTEXT(context);
  if (dptr == 0) return CUDA_SUCCESS;
  Allocation allocation;
  if (!simgpu::find_allocation(pointer(dptr), &allocation) || allocation.address != dptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  simgpu::synchronize_context(context, simgpu::WaitKind::free, true);
  return simgpu::release(pointer(dptr), MemoryKind::device) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
}

// Memory of pools is freed when the stream gets there; the pages stay with the pool, so freeing
// at once would only be seen by a host function that still runs on them.
CUresult allocate_async(CUdeviceptr* dptr, size_t bytes, MemoryPool* pool, CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIMGPU_TRY(allocate_device(dptr, MemoryKind::device, bytes, 0, pool));
  simgpu::DeviceLock lock(simgpu::device_lock());
  simgpu::GraphNode* node = nullptr;
  if (stream->capture) return capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult DRV(cuMemAlloc_v2)(CUdeviceptr* dptr, size_t bytesize) {
  return allocate_device(dptr, MemoryKind::device, bytesize, 0, nullptr);
}

CUresult DRV(cuMemAllocPitch_v2)(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                 size_t Height, unsigned int) {
  *pPitch = (WidthInBytes + kPitchBytes - 1) / kPitchBytes * kPitchBytes;
  return allocate_device(dptr, MemoryKind::device, *pPitch * Height, 0, nullptr);
}

CUresult DRV(cuMemAllocManaged)(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  return allocate_device(dptr, MemoryKind::managed, bytesize, flags, nullptr);
}

CUresult DRV(cuMemFree_v2)(CUdeviceptr dptr) { return free_device(dptr); }

CUresult DRV(cuMemHostAlloc)(void** pp, size_t bytesize, unsigned int Flags) {
  return allocate_host(pp, bytesize, Flags);
}

CUresult DRV(cuMemAllocHost_v2)(void** pp, size_t bytesize) {
  return allocate_host(pp, bytesize, 0);
}

CUresult DRV(cuMemFreeHost)(void* p) {
  SIMGPU_CONTEXT(context);
  Allocation allocation;
  if (!simgpu::find_allocation(p, &allocation) || allocation.kind != MemoryKind::pinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  simgpu::synchronize_context(context, simgpu::WaitKind::free, true);
  return simgpu::release(p, MemoryKind::pinned) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult DRV(cuMemHostRegister_v2)(void* p, size_t bytesize, unsigned int Flags) {
  SIMGPU_CONTEXT(context);
  if (p == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  return simgpu::register_pages(context, p, bytesize, Flags)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult DRV(cuMemHostUnregister)(void* p) {
  SIMGPU_CONTEXT(context);
  return simgpu::unregister_pages(p) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult DRV(cuMemHostGetDevicePointer_v2)(CUdeviceptr* pdptr, void* p, unsigned int) {
  SIMGPU_CONTEXT(context);
  Allocation allocation;
  if (!simgpu::find_allocation(p, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemHostGetFlags)(unsigned int* pFlags, void* p) {
  Allocation allocation;
  if (!simgpu::find_allocation(p, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  *pFlags = allocation.flags;
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemGetInfo_v2)(size_t* free, size_t* total) {
  SIMGPU_CONTEXT(context);
  *total = simgpu::settings().memory_bytes;
  *free = *total - context->device->used_bytes;
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemGetAddressRange_v2)(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  Allocation allocation;
  if (!simgpu::find_allocation(pointer(dptr), &allocation)) return CUDA_ERROR_NOT_FOUND;
  if (pbase) *pbase = allocation.address;
  if (psize) *psize = allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemAllocAsync)(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  SIMGPU_CONTEXT(context);
  return allocate_async(dptr, bytesize, current_pool(context->device), hStream);
}

CUresult DRV(cuMemAllocFromPoolAsync)(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                      CUstream hStream) {
  return allocate_async(dptr, bytesize, to_pool(pool), hStream);
}

CUresult DRV(cuMemFreeAsync)(CUdeviceptr dptr, CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  if (stream->capture) {
    simgpu::DeviceLock lock(simgpu::device_lock());
    simgpu::GraphNode* node = nullptr;
    return capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, &node);
  }
  return simgpu::release(pointer(dptr), MemoryKind::device) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
}

CUresult DRV(cuDeviceGetDefaultMemPool)(CUmemoryPool* pool_out, CUdevice dev) {
  Device* device = device_at(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool_out = handle(simgpu::default_pool(device));
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceGetMemPool)(CUmemoryPool* pool, CUdevice dev) {
  Device* device = device_at(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = handle(current_pool(device));
  return CUDA_SUCCESS;
}

CUresult DRV(cuDeviceSetMemPool)(CUdevice dev, CUmemoryPool pool) {
  Device* device = device_at(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (to_pool(pool) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = to_pool(pool);
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemPoolCreate)(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  Device* device = device_at(poolProps->location.id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  auto* created = new MemoryPool;
  created->device = device;
  *pool = handle(created);
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemPoolDestroy)(CUmemoryPool pool) {
  MemoryPool* found = to_pool(pool);
  if (found == nullptr || found->is_default) return CUDA_ERROR_INVALID_VALUE;
  if (found->device->current_pool == found) found->device->current_pool = nullptr;
  found->magic = 0;
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemPoolTrimTo)(CUmemoryPool pool, size_t) {
  return to_pool(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult DRV(cuMemPoolSetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  MemoryPool* found = to_pool(pool);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attr < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] =
        *static_cast<int*>(value);
  } else if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    found->release_threshold = *static_cast<cuuint64_t*>(value);
  } else {
    found->used_high_bytes = found->used_bytes;  // the two high marks can only be reset
  }
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemPoolGetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  MemoryPool* found = to_pool(pool);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) =
          found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t*>(value) = found->release_threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = found->used_high_bytes;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = found->used_bytes;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult DRV(cuMemPoolSetAccess)(CUmemoryPool pool, const CUmemAccessDesc*, size_t) {
  return to_pool(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult DRV(cuMemPoolGetAccess)(CUmemAccess_flags* flags, CUmemoryPool, CUmemLocation*) {
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemAdvise_v2)(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) {
  SIMGPU_CONTEXT(context);
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemPrefetchAsync_v2)(CUdeviceptr devPtr, size_t, CUmemLocation, unsigned int,
                                    CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  Allocation allocation;
  return simgpu::find_allocation(pointer(devPtr), &allocation) ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult DRV(cuStreamAttachMemAsync)(CUstream hStream, CUdeviceptr, size_t, unsigned int) {
  SIMGPU_STREAM(stream, hStream);
  return CUDA_SUCCESS;
}

CUresult DRV(cuPointerGetAttribute)(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  Allocation allocation;
  if (!simgpu::find_allocation(pointer(ptr), &allocation)) return CUDA_ERROR_INVALID_VALUE;
  bool host = allocation.kind == MemoryKind::pinned;
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = reinterpret_cast<CUcontext>(allocation.context);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = ptr;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && allocation.kind != MemoryKind::managed) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(data) = pointer(ptr);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = allocation.id;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned char*>(data) = allocation.kind == MemoryKind::managed;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = allocation.device->ordinal;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<uintptr_t*>(data) = allocation.address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = allocation.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned char*>(data) = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) = handle(allocation.pool);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult DRV(cuPointerGetAttributes)(unsigned int numAttributes, CUpointer_attribute* attributes,
                                     void** data, CUdeviceptr ptr) {
  for (unsigned i = 0; i < numAttributes; ++i) {
    if (DRV(cuPointerGetAttribute)(data[i], attributes[i], ptr) == CUDA_SUCCESS) continue;
    // As documented: an unknown pointer is no error, its attributes read as nothing.
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      *static_cast<int*>(data[i]) = -2;
    } else if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
               attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
      std::memset(data[i], 0, attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? 4 : 1);
    } else {
      *static_cast<void**>(data[i]) = nullptr;
    }
  }
  return CUDA_SUCCESS;
}

CUresult DRV(cuPointerSetAttribute)(const void*, CUpointer_attribute, CUdeviceptr) {
  return CUDA_SUCCESS;
}
