// SPDX-License-Identifier: Apache-2.0
// Copies and fills, and which of them make the host wait.
#include "driver/copy.h"

#include <algorithm>

#include "device/clock.h"
#include "device/graph.h"
#include "device/memory.h"
#include "device/settings.h"
#include "driver/driver.h"

namespace simgpu {
namespace {

// A pageable copy of at most this size is staged: the call returns before the device has it.
constexpr uint64_t kStagedBytes = 64 * 1024;

bool on_host(MemoryKind kind) { return kind == MemoryKind::pageable || kind == MemoryKind::pinned; }

int64_t copy_duration_ns(const Operation& operation) {
  const Settings& model = settings();
  double gbps = model.device_copy_gbps;
  if (operation.peer_device != operation.device && operation.peer_device != UINT32_MAX) {
    gbps = model.peer_copy_gbps;
  } else if (operation.source == MemoryKind::pageable ||
             operation.destination == MemoryKind::pageable) {
    gbps = model.pageable_copy_gbps;
  } else if (on_host(operation.source) || on_host(operation.destination)) {
    gbps = model.host_copy_gbps;
  }
  return model.copy_latency_ns + static_cast<int64_t>(static_cast<double>(operation.bytes) / gbps);
}

CUresult check_stream(Stream* stream, bool async) {
  if (async) return CUDA_SUCCESS;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  DeviceLock lock(device_lock());
  return refuse_legacy_in_capture(stream);
}

}  // namespace

Work copy_work(const Transfer& transfer, Context* context, bool async) {
  Work work;
  work.transfer = transfer;
  Operation& operation = work.operation;
  operation.kind = OperationKind::copy;
  operation.bytes = transfer.bytes();
  operation.async = async;
  operation.name = "memcpy";
  Device* source_device = nullptr;
  Device* destination_device = nullptr;
  operation.source = memory_kind(transfer.source, &source_device);
  operation.destination = memory_kind(transfer.destination, &destination_device);
  operation.device = static_cast<uint32_t>(context->device->ordinal);
  operation.peer_device = UINT32_MAX;
  bool host_copy = on_host(operation.source) || on_host(operation.destination);
  if (!host_copy && source_device && destination_device && source_device != destination_device) {
    Device* peer = source_device == context->device ? destination_device : source_device;
    operation.peer_device = static_cast<uint32_t>(peer->ordinal);
  }
  work.duration_ns = copy_duration_ns(operation);
  if (host_copy) work.engine = on_host(operation.source) ? 0 : 1;
  return work;
}

Work set_work(const Transfer& transfer, bool async) {
  Work work;
  work.transfer = transfer;
  work.operation.kind = OperationKind::set;
  work.operation.bytes = transfer.bytes();
  work.operation.async = async;
  work.operation.name = "memset";
  work.operation.set_value = transfer.value;
  work.operation.destination = memory_kind(transfer.destination, nullptr);
  work.operation.peer_device = UINT32_MAX;
  work.duration_ns =
      settings().copy_latency_ns +
      static_cast<int64_t>(static_cast<double>(work.operation.bytes) / settings().device_copy_gbps);
  return work;
}

CUresult copy(CUstream handle, const Transfer& transfer, bool async) {
  SIMGPU_STREAM(stream, handle);
  if (transfer.bytes() == 0) return CUDA_SUCCESS;
  if (transfer.source == nullptr || transfer.destination == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(check_stream(stream, async));
  Work work = copy_work(transfer, stream->context, async);
  MemoryKind source = work.operation.source;
  MemoryKind destination = work.operation.destination;
  bool host_waits = destination == MemoryKind::pageable ||
                    (source == MemoryKind::pageable && transfer.bytes() > kStagedBytes) ||
                    (on_host(source) && on_host(destination));
  if (!async) {
    host_waits = host_waits || on_host(destination) || source == MemoryKind::pinned;
    // Nothing before the copy may still read what the staging buffer replaces.
    if (source == MemoryKind::pageable) host_waits = true;
  }
  bool captured = stream->capture != nullptr;
  Mark mark;
  SIMGPU_TRY(submit(stream, std::move(work), &mark));
  if (host_waits && !captured) {
    if (!async && source == MemoryKind::pageable && !on_host(destination) &&
        transfer.bytes() <= kStagedBytes && mark.resolved()) {
      // Documented: the call returns when the data is staged, the transfer may still be under way.
      mark.time_ns = mark.end_ns() - settings().copy_latency_ns;
    }
    wait_for_copy(stream, mark);
  }
  return CUDA_SUCCESS;
}

CUresult fill(CUstream handle, const Transfer& transfer, bool async) {
  SIMGPU_STREAM(stream, handle);
  if (transfer.bytes() == 0) return CUDA_SUCCESS;
  if (memory_kind(transfer.destination, nullptr) == MemoryKind::pageable) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(check_stream(stream, async));
  Mark mark;
  Work work = set_work(transfer, async);
  bool host_waits = !async && work.operation.destination == MemoryKind::pinned;
  SIMGPU_TRY(submit(stream, std::move(work), &mark));
  if (host_waits) wait_for_copy(stream, mark);
  return CUDA_SUCCESS;
}

Transfer linear(void* destination, const void* source, size_t bytes) {
  Transfer transfer;
  transfer.type = Transfer::Type::copy;
  transfer.destination = static_cast<unsigned char*>(destination);
  transfer.source = static_cast<const unsigned char*>(source);
  transfer.width_bytes = bytes;
  return transfer;
}

Transfer from_params(const CUDA_MEMCPY3D& p) {
  auto host = [](CUmemorytype type) { return type == CU_MEMORYTYPE_HOST; };
  auto* source = host(p.srcMemoryType) ? static_cast<const unsigned char*>(p.srcHost)
                                       : reinterpret_cast<const unsigned char*>(p.srcDevice);
  auto* destination = host(p.dstMemoryType) ? static_cast<unsigned char*>(p.dstHost)
                                            : reinterpret_cast<unsigned char*>(p.dstDevice);
  Transfer t;
  t.type = Transfer::Type::copy;
  t.width_bytes = p.WidthInBytes;
  t.height = std::max<size_t>(p.Height, 1);
  t.depth = std::max<size_t>(p.Depth, 1);
  t.source_pitch = p.srcPitch ? p.srcPitch : p.WidthInBytes;
  t.destination_pitch = p.dstPitch ? p.dstPitch : p.WidthInBytes;
  t.source_slice = t.source_pitch * (p.srcHeight ? p.srcHeight : t.height);
  t.destination_slice = t.destination_pitch * (p.dstHeight ? p.dstHeight : t.height);
  t.source = source + p.srcXInBytes + p.srcY * t.source_pitch + p.srcZ * t.source_slice;
  t.destination =
      destination + p.dstXInBytes + p.dstY * t.destination_pitch + p.dstZ * t.destination_slice;
  return t;
}

Transfer filled(CUdeviceptr destination, size_t pitch, unsigned value, unsigned element_bytes,
                size_t width, size_t height) {
  Transfer t;
  t.type = Transfer::Type::set;
  t.destination = reinterpret_cast<unsigned char*>(destination);
  t.destination_pitch = pitch;
  t.value = value;
  t.element_bytes = static_cast<uint8_t>(element_bytes);
  t.width_bytes = width * element_bytes;
  t.height = std::max<size_t>(height, 1);
  return t;
}

}  // namespace simgpu

namespace {

using simgpu::copy;
using simgpu::fill;
using simgpu::filled;
using simgpu::linear;

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUDA_MEMCPY3D widen(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D wide{};
  wide.srcXInBytes = p.srcXInBytes;
  wide.srcY = p.srcY;
  wide.srcMemoryType = p.srcMemoryType;
  wide.srcHost = p.srcHost;
  wide.srcDevice = p.srcDevice;
  wide.srcPitch = p.srcPitch;
  wide.dstXInBytes = p.dstXInBytes;
  wide.dstY = p.dstY;
  wide.dstMemoryType = p.dstMemoryType;
  wide.dstHost = p.dstHost;
  wide.dstDevice = p.dstDevice;
  wide.dstPitch = p.dstPitch;
  wide.WidthInBytes = p.WidthInBytes;
  wide.Height = p.Height;
  wide.Depth = 1;
  return wide;
}

bool has_array(const CUDA_MEMCPY3D& p) {
  return p.srcMemoryType == CU_MEMORYTYPE_ARRAY || p.dstMemoryType == CU_MEMORYTYPE_ARRAY;
}

CUresult copy_params(CUstream stream, const CUDA_MEMCPY3D& params, bool async) {
  if (has_array(params)) return CUDA_ERROR_NOT_SUPPORTED;
  return copy(stream, simgpu::from_params(params), async);
}

}  // namespace

CUresult DRV(cuMemcpy)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return copy(nullptr, linear(at(dst), at(src), ByteCount), false);
}
CUresult DRV(cuMemcpyAsync)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return copy(hStream, linear(at(dst), at(src), ByteCount), true);
}
CUresult DRV(cuMemcpyPeer)(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext,
                           size_t ByteCount) {
  return copy(nullptr, linear(at(dst), at(src), ByteCount), false);
}
CUresult DRV(cuMemcpyPeerAsync)(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext,
                                size_t ByteCount, CUstream hStream) {
  return copy(hStream, linear(at(dst), at(src), ByteCount), true);
}
CUresult DRV(cuMemcpyHtoD_v2)(CUdeviceptr dst, const void* src, size_t ByteCount) {
  return copy(nullptr, linear(at(dst), src, ByteCount), false);
}
CUresult DRV(cuMemcpyDtoH_v2)(void* dst, CUdeviceptr src, size_t ByteCount) {
  return copy(nullptr, linear(dst, at(src), ByteCount), false);
}
CUresult DRV(cuMemcpyDtoD_v2)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return copy(nullptr, linear(at(dst), at(src), ByteCount), false);
}
CUresult DRV(cuMemcpyHtoDAsync_v2)(CUdeviceptr dst, const void* src, size_t ByteCount,
                                   CUstream hStream) {
  return copy(hStream, linear(at(dst), src, ByteCount), true);
}
CUresult DRV(cuMemcpyDtoHAsync_v2)(void* dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return copy(hStream, linear(dst, at(src), ByteCount), true);
}
CUresult DRV(cuMemcpyDtoDAsync_v2)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                                   CUstream hStream) {
  return copy(hStream, linear(at(dst), at(src), ByteCount), true);
}
CUresult DRV(cuMemcpy2D_v2)(const CUDA_MEMCPY2D* pCopy) {
  return copy_params(nullptr, widen(*pCopy), false);
}
CUresult DRV(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D* pCopy) {
  return copy_params(nullptr, widen(*pCopy), false);
}
CUresult DRV(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return copy_params(hStream, widen(*pCopy), true);
}
CUresult DRV(cuMemcpy3D_v2)(const CUDA_MEMCPY3D* pCopy) {
  return copy_params(nullptr, *pCopy, false);
}
CUresult DRV(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return copy_params(hStream, *pCopy, true);
}
CUresult DRV(cuMemcpyBatchAsync_v2)(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                    size_t count, CUmemcpyAttributes*, size_t*, size_t,
                                    CUstream hStream) {
  for (size_t i = 0; i < count; ++i) {
    SIMGPU_TRY(copy(hStream, linear(at(dsts[i]), at(srcs[i]), sizes[i]), true));
  }
  return CUDA_SUCCESS;
}

CUresult DRV(cuMemsetD8_v2)(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return fill(nullptr, filled(dstDevice, 0, uc, 1, N, 1), false);
}
CUresult DRV(cuMemsetD16_v2)(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return fill(nullptr, filled(dstDevice, 0, us, 2, N, 1), false);
}
CUresult DRV(cuMemsetD32_v2)(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return fill(nullptr, filled(dstDevice, 0, ui, 4, N, 1), false);
}
CUresult DRV(cuMemsetD8Async)(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill(hStream, filled(dstDevice, 0, uc, 1, N, 1), true);
}
CUresult DRV(cuMemsetD16Async)(CUdeviceptr dstDevice, unsigned short us, size_t N,
                               CUstream hStream) {
  return fill(hStream, filled(dstDevice, 0, us, 2, N, 1), true);
}
CUresult DRV(cuMemsetD32Async)(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill(hStream, filled(dstDevice, 0, ui, 4, N, 1), true);
}
CUresult DRV(cuMemsetD2D8_v2)(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                              size_t Width, size_t Height) {
  return fill(nullptr, filled(dstDevice, dstPitch, uc, 1, Width, Height), false);
}
CUresult DRV(cuMemsetD2D8Async)(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                size_t Width, size_t Height, CUstream hStream) {
  return fill(hStream, filled(dstDevice, dstPitch, uc, 1, Width, Height), true);
}
CUresult DRV(cuMemsetD2D32_v2)(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                               size_t Width, size_t Height) {
  return fill(nullptr, filled(dstDevice, dstPitch, ui, 4, Width, Height), false);
}
CUresult DRV(cuMemsetD2D32Async)(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                 size_t Width, size_t Height, CUstream hStream) {
  return fill(hStream, filled(dstDevice, dstPitch, ui, 4, Width, Height), true);
}
