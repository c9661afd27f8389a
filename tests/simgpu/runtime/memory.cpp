// SPDX-License-Identifier: Apache-2.0
// Allocation, copies and fills, symbols, pools, pointer attributes.
#include <algorithm>

#include "runtime/runtime.h"

using simrt::address;
using simrt::driver;
using simrt::finish;

namespace {

bool valid(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

cudaError_t copy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  SIMRT_CONTEXT();
  if (!valid(kind)) return simrt::fail(cudaErrorInvalidMemcpyDirection);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return finish(driver().cuMemcpyHtoD(address(dst), src, count));
    case cudaMemcpyDeviceToHost:
      return finish(driver().cuMemcpyDtoH(dst, address(src), count));
    case cudaMemcpyDeviceToDevice:
      return finish(driver().cuMemcpyDtoD(address(dst), address(src), count));
    default:
      return finish(driver().cuMemcpy(address(dst), address(src), count));
  }
}

cudaError_t copy_async(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                       cudaStream_t stream) {
  SIMRT_CONTEXT();
  if (!valid(kind)) return simrt::fail(cudaErrorInvalidMemcpyDirection);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return finish(driver().cuMemcpyHtoDAsync(address(dst), src, count, stream));
    case cudaMemcpyDeviceToHost:
      return finish(driver().cuMemcpyDtoHAsync(dst, address(src), count, stream));
    case cudaMemcpyDeviceToDevice:
      return finish(driver().cuMemcpyDtoDAsync(address(dst), address(src), count, stream));
    default:
      return finish(driver().cuMemcpyAsync(address(dst), address(src), count, stream));
  }
}

CUDA_MEMCPY2D rectangle(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                        size_t height) {
  CUDA_MEMCPY2D params{};
  params.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  params.srcDevice = address(src);
  params.srcPitch = spitch;
  params.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  params.dstDevice = address(dst);
  params.dstPitch = dpitch;
  params.WidthInBytes = width;
  params.Height = height;
  return params;
}

CUDA_MEMCPY3D box(const cudaMemcpy3DParms& p) {
  CUDA_MEMCPY3D params{};
  params.srcMemoryType = p.srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  params.srcDevice = address(p.srcPtr.ptr);
  params.srcPitch = p.srcPtr.pitch;
  params.srcHeight = p.srcPtr.ysize;
  params.srcXInBytes = p.srcPos.x;
  params.srcY = p.srcPos.y;
  params.srcZ = p.srcPos.z;
  params.dstMemoryType = p.dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  params.dstDevice = address(p.dstPtr.ptr);
  params.dstPitch = p.dstPtr.pitch;
  params.dstHeight = p.dstPtr.ysize;
  params.dstXInBytes = p.dstPos.x;
  params.dstY = p.dstPos.y;
  params.dstZ = p.dstPos.z;
  params.WidthInBytes = p.extent.width;
  params.Height = p.extent.height;
  params.Depth = p.extent.depth;
  return params;
}

cudaError_t symbol_at(const void* symbol, size_t offset, size_t count, char** at) {
  SIMRT_CONTEXT();
  CUdeviceptr base = 0;
  size_t bytes = 0;
  cudaError_t error = simrt::find_symbol(symbol, &base, &bytes);
  if (error == cudaSuccess && offset + count > bytes) error = cudaErrorInvalidValue;
  *at = reinterpret_cast<char*>(base) + offset;
  return simrt::fail(error);
}

}  // namespace

cudaError_t RT(cudaMalloc)(void** devPtr, size_t size) {
  SIMRT_CONTEXT();
  if (size == 0) {
    *devPtr = nullptr;
    return cudaSuccess;
  }
  return finish(driver().cuMemAlloc(reinterpret_cast<CUdeviceptr*>(devPtr), size));
}
cudaError_t RT(cudaMallocPitch)(void** devPtr, size_t* pitch, size_t width, size_t height) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemAllocPitch(reinterpret_cast<CUdeviceptr*>(devPtr), pitch, width, height, 4));
}
cudaError_t RT(cudaMalloc3D)(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
  SIMRT_CONTEXT();
  CUdeviceptr base = 0;
  CUresult result = driver().cuMemAllocPitch(&base, &pitchedDevPtr->pitch, extent.width,
                                             extent.height * std::max<size_t>(extent.depth, 1), 4);
  pitchedDevPtr->ptr = reinterpret_cast<void*>(base);
  pitchedDevPtr->xsize = extent.width;
  pitchedDevPtr->ysize = extent.height;
  return finish(result);
}
cudaError_t RT(cudaMallocManaged)(void** devPtr, size_t size, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(devPtr), size, flags));
}
cudaError_t RT(cudaFree)(void* devPtr) {
  SIMRT_CONTEXT();
  if (devPtr == nullptr) return cudaSuccess;
  return finish(driver().cuMemFree(address(devPtr)));
}
cudaError_t RT(cudaMallocHost)(void** ptr, size_t size) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemHostAlloc(ptr, size, 0));
}
cudaError_t RT(cudaHostAlloc)(void** pHost, size_t size, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemHostAlloc(pHost, size, flags));
}
cudaError_t RT(cudaFreeHost)(void* ptr) {
  SIMRT_CONTEXT();
  if (ptr == nullptr) return cudaSuccess;
  return finish(driver().cuMemFreeHost(ptr));
}
cudaError_t RT(cudaHostRegister)(void* ptr, size_t size, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemHostRegister(ptr, size, flags));
}
cudaError_t RT(cudaHostUnregister)(void* ptr) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemHostUnregister(ptr));
}
cudaError_t RT(cudaHostGetDevicePointer)(void** pDevice, void* pHost, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(pDevice), pHost, flags));
}
cudaError_t RT(cudaHostGetFlags)(unsigned int* pFlags, void* pHost) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemHostGetFlags(pFlags, pHost));
}
cudaError_t RT(cudaMemGetInfo)(size_t* free, size_t* total) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemGetInfo(free, total));
}

cudaError_t RT(cudaMemcpy)(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return copy(dst, src, count, kind);
}
cudaError_t RT(cudaMemcpyAsync)(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                                cudaStream_t stream) {
  return copy_async(dst, src, count, kind, stream);
}
cudaError_t RT(cudaMemcpyPeer)(void* dst, int, const void* src, int, size_t count) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemcpyPeer(address(dst), nullptr, address(src), nullptr, count));
}
cudaError_t RT(cudaMemcpyPeerAsync)(void* dst, int, const void* src, int, size_t count,
                                    cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemcpyPeerAsync(address(dst), nullptr, address(src), nullptr, count, stream));
}
cudaError_t RT(cudaMemcpy2D)(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                             size_t height, cudaMemcpyKind) {
  SIMRT_CONTEXT();
  if (width > dpitch || width > spitch) return simrt::fail(cudaErrorInvalidValue);
  CUDA_MEMCPY2D params = rectangle(dst, dpitch, src, spitch, width, height);
  return finish(driver().cuMemcpy2DUnaligned(&params));
}
cudaError_t RT(cudaMemcpy2DAsync)(void* dst, size_t dpitch, const void* src, size_t spitch,
                                  size_t width, size_t height, cudaMemcpyKind,
                                  cudaStream_t stream) {
  SIMRT_CONTEXT();
  if (width > dpitch || width > spitch) return simrt::fail(cudaErrorInvalidValue);
  CUDA_MEMCPY2D params = rectangle(dst, dpitch, src, spitch, width, height);
  return finish(driver().cuMemcpy2DAsync(&params, stream));
}
cudaError_t RT(cudaMemcpy3D)(const cudaMemcpy3DParms* p) {
  SIMRT_CONTEXT();
  CUDA_MEMCPY3D params = box(*p);
  return finish(driver().cuMemcpy3D(&params));
}
cudaError_t RT(cudaMemcpy3DAsync)(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  SIMRT_CONTEXT();
  CUDA_MEMCPY3D params = box(*p);
  return finish(driver().cuMemcpy3DAsync(&params, stream));
}
cudaError_t RT(cudaMemcpyBatchAsync)(void* const* dsts, const void* const* srcs,
                                     const size_t* sizes, size_t count, cudaMemcpyAttributes*,
                                     size_t*, size_t, cudaStream_t stream) {
  for (size_t i = 0; i < count; ++i) {
    cudaError_t error = copy_async(dsts[i], srcs[i], sizes[i], cudaMemcpyDefault, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t RT(cudaMemcpyToSymbol)(const void* symbol, const void* src, size_t count, size_t offset,
                                   cudaMemcpyKind kind) {
  char* at = nullptr;
  cudaError_t error = symbol_at(symbol, offset, count, &at);
  return error != cudaSuccess ? error : copy(at, src, count, kind);
}
cudaError_t RT(cudaMemcpyFromSymbol)(void* dst, const void* symbol, size_t count, size_t offset,
                                     cudaMemcpyKind kind) {
  char* at = nullptr;
  cudaError_t error = symbol_at(symbol, offset, count, &at);
  return error != cudaSuccess ? error : copy(dst, at, count, kind);
}
cudaError_t RT(cudaMemcpyToSymbolAsync)(const void* symbol, const void* src, size_t count,
                                        size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  char* at = nullptr;
  cudaError_t error = symbol_at(symbol, offset, count, &at);
  return error != cudaSuccess ? error : copy_async(at, src, count, kind, stream);
}
cudaError_t RT(cudaMemcpyFromSymbolAsync)(void* dst, const void* symbol, size_t count,
                                          size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  char* at = nullptr;
  cudaError_t error = symbol_at(symbol, offset, count, &at);
  return error != cudaSuccess ? error : copy_async(dst, at, count, kind, stream);
}

cudaError_t RT(cudaMemset)(void* devPtr, int value, size_t count) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemsetD8(address(devPtr), static_cast<unsigned char>(value), count));
}
cudaError_t RT(cudaMemsetAsync)(void* devPtr, int value, size_t count, cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemsetD8Async(address(devPtr), static_cast<unsigned char>(value), count, stream));
}
cudaError_t RT(cudaMemset2D)(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemsetD2D8(address(devPtr), pitch, static_cast<unsigned char>(value),
                                      width, height));
}
cudaError_t RT(cudaMemset2DAsync)(void* devPtr, size_t pitch, int value, size_t width,
                                  size_t height, cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemsetD2D8Async(
      address(devPtr), pitch, static_cast<unsigned char>(value), width, height, stream));
}
cudaError_t RT(cudaMemset3D)(cudaPitchedPtr p, int value, cudaExtent extent) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemsetD2D8(address(p.ptr), p.pitch, static_cast<unsigned char>(value),
                                      extent.width, extent.height * extent.depth));
}
cudaError_t RT(cudaMemset3DAsync)(cudaPitchedPtr p, int value, cudaExtent extent,
                                  cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemsetD2D8Async(address(p.ptr), p.pitch,
                                           static_cast<unsigned char>(value), extent.width,
                                           extent.height * extent.depth, stream));
}

cudaError_t RT(cudaMallocAsync)(void** devPtr, size_t size, cudaStream_t hStream) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(devPtr), size, hStream));
}
cudaError_t RT(cudaMallocFromPoolAsync)(void** ptr, size_t size, cudaMemPool_t memPool,
                                        cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(ptr), size, memPool, stream));
}
cudaError_t RT(cudaFreeAsync)(void* devPtr, cudaStream_t hStream) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemFreeAsync(address(devPtr), hStream));
}
cudaError_t RT(cudaDeviceGetDefaultMemPool)(cudaMemPool_t* memPool, int device) {
  SIMRT_CONTEXT();
  return finish(driver().cuDeviceGetDefaultMemPool(memPool, device));
}
cudaError_t RT(cudaDeviceGetMemPool)(cudaMemPool_t* memPool, int device) {
  SIMRT_CONTEXT();
  return finish(driver().cuDeviceGetMemPool(memPool, device));
}
cudaError_t RT(cudaDeviceSetMemPool)(int device, cudaMemPool_t memPool) {
  SIMRT_CONTEXT();
  return finish(driver().cuDeviceSetMemPool(device, memPool));
}
cudaError_t RT(cudaMemPoolCreate)(cudaMemPool_t* memPool, const cudaMemPoolProps* poolProps) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemPoolCreate(memPool, reinterpret_cast<const CUmemPoolProps*>(poolProps)));
}
cudaError_t RT(cudaMemPoolDestroy)(cudaMemPool_t memPool) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemPoolDestroy(memPool));
}
cudaError_t RT(cudaMemPoolTrimTo)(cudaMemPool_t memPool, size_t minBytesToKeep) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemPoolTrimTo(memPool, minBytesToKeep));
}
cudaError_t RT(cudaMemPoolSetAttribute)(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemPoolSetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value));
}
cudaError_t RT(cudaMemPoolGetAttribute)(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuMemPoolGetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value));
}
cudaError_t RT(cudaMemPoolSetAccess)(cudaMemPool_t memPool, const cudaMemAccessDesc* descList,
                                     size_t count) {
  SIMRT_CONTEXT();
  return finish(driver().cuMemPoolSetAccess(
      memPool, reinterpret_cast<const CUmemAccessDesc*>(descList), count));
}
cudaError_t RT(cudaMemPrefetchAsync)(const void* devPtr, size_t count, cudaMemLocation location,
                                     unsigned int flags, cudaStream_t stream) {
  SIMRT_CONTEXT();
  CUmemLocation place{};
  place.type = static_cast<CUmemLocationType>(location.type);
  place.id = location.id;
  return finish(driver().cuMemPrefetchAsync(address(devPtr), count, place, flags, stream));
}
cudaError_t RT(cudaMemAdvise)(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) {
  SIMRT_CONTEXT();
  return cudaSuccess;
}

cudaError_t RT(cudaPointerGetAttributes)(cudaPointerAttributes* attributes, const void* ptr) {
  SIMRT_CONTEXT();
  unsigned type = 0;
  unsigned char managed = 0;
  int device = -2;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &managed, &device};
  CUresult result = driver().cuPointerGetAttributes(3, names, values, address(ptr));
  if (result != CUDA_SUCCESS) return finish(result);
  *attributes = {};
  attributes->device = device;
  attributes->type = managed                        ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                     : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                    : cudaMemoryTypeUnregistered;
  if (attributes->type != cudaMemoryTypeUnregistered) {
    attributes->devicePointer = const_cast<void*>(ptr);
  }
  if (attributes->type != cudaMemoryTypeDevice) attributes->hostPointer = const_cast<void*>(ptr);
  return cudaSuccess;
}
