// SPDX-License-Identifier: Apache-2.0
//
// The parts of CUPTI's activity records that are read here, as prefixes of our own. Across CUPTI
// 11.0 to 13.0 no field that is needed ever moved, records only grew at the end; the assertions
// below hold every struct version that the build's headers know to that. What a record of the
// library at hand really contains is told by its stride, measured at run time.
#pragma once

#include <cupti.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpuidle::cupti {

struct KernelPrefix {
  std::uint32_t kind;
  std::uint8_t unread_1[2];
  std::uint16_t registers_per_thread;
  std::uint64_t unread_2;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared_bytes, dynamic_shared_bytes;
  std::uint32_t unread_3[2];
  std::uint32_t correlation;
  std::int64_t grid_id;
  const char* name;
  std::uint8_t unread_4[144 - 112];
  std::uint64_t graph_node;  // from CUPTI 11.0 (stride 160) on
  std::uint32_t unread_5;
  std::uint32_t graph;
};

struct MemcpyPrefix {
  std::uint32_t kind;
  std::uint8_t copy_kind, source_kind, destination_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
};

struct PeerCopyPrefix {
  std::uint32_t kind;
  std::uint8_t copy_kind, source_kind, destination_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t source_device, source_context, destination_device, destination_context;
  std::uint32_t correlation;
};

struct MemsetPrefix {
  std::uint32_t kind;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
  std::uint16_t flags, memory_kind;
};

struct GraphTracePrefix {
  std::uint32_t kind;
  std::uint32_t correlation;
  std::uint64_t start, end;
  std::uint32_t device, graph, context, stream;
};

struct OverheadPrefix {
  std::uint32_t kind;
  std::uint32_t overhead_kind;
  std::uint32_t object_kind;
  std::uint32_t process, thread, unread;
  std::uint64_t start, end;
};

struct DevicePrefix {
  std::uint32_t kind;
  std::uint32_t flags;
  std::uint64_t memory_bandwidth, memory_bytes;
  std::uint32_t unread_1[5];
  std::uint32_t multiprocessors;
  std::uint32_t unread_2[(104 - 48) / 4];
  std::uint32_t compute_major, compute_minor;
  std::uint32_t ordinal;
  std::uint32_t unread_3;
  std::uint8_t uuid[16];
  const char* name;  // whose it is differs by version: copied at once, never freed
};

#define GPUIDLE_SAME(Record, field, Prefix, own)                    \
  static_assert(offsetof(Record, field) == offsetof(Prefix, own) && \
                    sizeof(Record::field) == sizeof(Prefix::own),   \
                #Record "." #field " moved")
#define GPUIDLE_SAME_KERNEL(Record)                                              \
  GPUIDLE_SAME(Record, registersPerThread, KernelPrefix, registers_per_thread);  \
  GPUIDLE_SAME(Record, start, KernelPrefix, start);                              \
  GPUIDLE_SAME(Record, end, KernelPrefix, end);                                  \
  GPUIDLE_SAME(Record, deviceId, KernelPrefix, device);                          \
  GPUIDLE_SAME(Record, contextId, KernelPrefix, context);                        \
  GPUIDLE_SAME(Record, streamId, KernelPrefix, stream);                          \
  GPUIDLE_SAME(Record, gridX, KernelPrefix, grid[0]);                            \
  GPUIDLE_SAME(Record, blockX, KernelPrefix, block[0]);                          \
  GPUIDLE_SAME(Record, staticSharedMemory, KernelPrefix, static_shared_bytes);   \
  GPUIDLE_SAME(Record, dynamicSharedMemory, KernelPrefix, dynamic_shared_bytes); \
  GPUIDLE_SAME(Record, correlationId, KernelPrefix, correlation);                \
  GPUIDLE_SAME(Record, name, KernelPrefix, name)
GPUIDLE_SAME_KERNEL(CUpti_ActivityKernel4);
GPUIDLE_SAME_KERNEL(CUpti_ActivityKernel5);
GPUIDLE_SAME_KERNEL(CUpti_ActivityKernel6);
GPUIDLE_SAME_KERNEL(CUpti_ActivityKernel7);
GPUIDLE_SAME_KERNEL(CUpti_ActivityKernel8);
GPUIDLE_SAME_KERNEL(CUpti_ActivityKernel9);
GPUIDLE_SAME(CUpti_ActivityKernel5, graphNodeId, KernelPrefix, graph_node);
GPUIDLE_SAME(CUpti_ActivityKernel9, graphNodeId, KernelPrefix, graph_node);
GPUIDLE_SAME(CUpti_ActivityKernel9, graphId, KernelPrefix, graph);
#undef GPUIDLE_SAME_KERNEL

#define GPUIDLE_SAME_COPY(Record)                                \
  GPUIDLE_SAME(Record, copyKind, MemcpyPrefix, copy_kind);       \
  GPUIDLE_SAME(Record, srcKind, MemcpyPrefix, source_kind);      \
  GPUIDLE_SAME(Record, dstKind, MemcpyPrefix, destination_kind); \
  GPUIDLE_SAME(Record, flags, MemcpyPrefix, flags);              \
  GPUIDLE_SAME(Record, bytes, MemcpyPrefix, bytes);              \
  GPUIDLE_SAME(Record, start, MemcpyPrefix, start);              \
  GPUIDLE_SAME(Record, end, MemcpyPrefix, end);                  \
  GPUIDLE_SAME(Record, deviceId, MemcpyPrefix, device);          \
  GPUIDLE_SAME(Record, contextId, MemcpyPrefix, context);        \
  GPUIDLE_SAME(Record, streamId, MemcpyPrefix, stream);          \
  GPUIDLE_SAME(Record, correlationId, MemcpyPrefix, correlation)
GPUIDLE_SAME_COPY(CUpti_ActivityMemcpy);
GPUIDLE_SAME_COPY(CUpti_ActivityMemcpy3);
GPUIDLE_SAME_COPY(CUpti_ActivityMemcpy4);
GPUIDLE_SAME_COPY(CUpti_ActivityMemcpy5);
#undef GPUIDLE_SAME_COPY
GPUIDLE_SAME(CUpti_ActivityMemcpyPtoP4, bytes, PeerCopyPrefix, bytes);
GPUIDLE_SAME(CUpti_ActivityMemcpyPtoP4, start, PeerCopyPrefix, start);
GPUIDLE_SAME(CUpti_ActivityMemcpyPtoP4, deviceId, PeerCopyPrefix, device);
GPUIDLE_SAME(CUpti_ActivityMemcpyPtoP4, dstDeviceId, PeerCopyPrefix, destination_device);
GPUIDLE_SAME(CUpti_ActivityMemcpyPtoP4, correlationId, PeerCopyPrefix, correlation);
GPUIDLE_SAME(CUpti_ActivityMemset, start, MemsetPrefix, start);
GPUIDLE_SAME(CUpti_ActivityMemset4, bytes, MemsetPrefix, bytes);
GPUIDLE_SAME(CUpti_ActivityMemset4, start, MemsetPrefix, start);
GPUIDLE_SAME(CUpti_ActivityMemset4, deviceId, MemsetPrefix, device);
GPUIDLE_SAME(CUpti_ActivityMemset4, correlationId, MemsetPrefix, correlation);
GPUIDLE_SAME(CUpti_ActivityMemset4, memoryKind, MemsetPrefix, memory_kind);
GPUIDLE_SAME(CUpti_ActivityGraphTrace, correlationId, GraphTracePrefix, correlation);
GPUIDLE_SAME(CUpti_ActivityGraphTrace, start, GraphTracePrefix, start);
GPUIDLE_SAME(CUpti_ActivityGraphTrace, graphId, GraphTracePrefix, graph);
GPUIDLE_SAME(CUpti_ActivityGraphTrace, streamId, GraphTracePrefix, stream);
GPUIDLE_SAME(CUpti_ActivityOverhead, overheadKind, OverheadPrefix, overhead_kind);
GPUIDLE_SAME(CUpti_ActivityOverhead, start, OverheadPrefix, start);
GPUIDLE_SAME(CUpti_ActivityDevice4, globalMemorySize, DevicePrefix, memory_bytes);
GPUIDLE_SAME(CUpti_ActivityDevice4, numMultiprocessors, DevicePrefix, multiprocessors);
GPUIDLE_SAME(CUpti_ActivityDevice4, computeCapabilityMajor, DevicePrefix, compute_major);
GPUIDLE_SAME(CUpti_ActivityDevice4, id, DevicePrefix, ordinal);
GPUIDLE_SAME(CUpti_ActivityDevice4, name, DevicePrefix, name);
#if CUPTI_API_VERSION >= 130000
GPUIDLE_SAME(CUpti_ActivityKernel10, start, KernelPrefix, start);
GPUIDLE_SAME(CUpti_ActivityKernel10, correlationId, KernelPrefix, correlation);
GPUIDLE_SAME(CUpti_ActivityKernel10, name, KernelPrefix, name);
GPUIDLE_SAME(CUpti_ActivityKernel10, graphId, KernelPrefix, graph);
GPUIDLE_SAME(CUpti_ActivityMemcpy6, start, MemcpyPrefix, start);
GPUIDLE_SAME(CUpti_ActivityMemcpy6, correlationId, MemcpyPrefix, correlation);
GPUIDLE_SAME(CUpti_ActivityOverhead3, start, OverheadPrefix, start);
#endif
#undef GPUIDLE_SAME

/// A kind of record that is enabled or may be delivered, and the least stride that can be decoded.
struct ActivityKindRow {
  CUpti_ActivityKind kind;
  std::size_t minimum_stride;
};
inline constexpr std::array<ActivityKindRow, 7> kActivityKinds{{
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 144},
    {CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(MemcpyPrefix)},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, sizeof(PeerCopyPrefix)},
    {CUPTI_ACTIVITY_KIND_MEMSET, sizeof(MemsetPrefix)},
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, sizeof(GraphTracePrefix)},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof(OverheadPrefix)},
    {CUPTI_ACTIVITY_KIND_DEVICE, sizeof(DevicePrefix)},
}};

}  // namespace gpuidle::cupti
