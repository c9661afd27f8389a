// SPDX-License-Identifier: Apache-2.0
// Which release of CUPTI this build stands for: its number, the sizes of its records, the calls
// that its callbacks know. SIMCUPTI_RELEASE is 118, 124, or 130 for the release of the headers;
// sizes of older ones were measured on NVIDIA's libraries. Records of older releases are the heads
// of today's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/state.h"

#ifndef SIMCUPTI_RELEASE
#define SIMCUPTI_RELEASE 130
#endif

namespace simcupti {

struct OlderSize {
  uint32_t kind;
  size_t bytes;  // 0 = the release has no such kind
};

#if SIMCUPTI_RELEASE == 118
constexpr uint32_t kReleaseVersion = 18;
constexpr uint32_t kLastDriverCall = 676;
constexpr uint32_t kLastRuntimeCall = 433;
constexpr OlderSize kOlderSizes[] = {
    {CUPTI_ACTIVITY_KIND_MEMCPY, 88},
    {CUPTI_ACTIVITY_KIND_KERNEL, 200},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 200},
    {CUPTI_ACTIVITY_KIND_DEVICE, 176},
    {CUPTI_ACTIVITY_KIND_CONTEXT, 16},
    {CUPTI_ACTIVITY_KIND_MARKER_DATA, 32},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, 40},
    {CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, 64},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, 24},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 40},
    {CUPTI_ACTIVITY_KIND_MEMORY2, 120},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL, 72},
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 48},
    {CUPTI_ACTIVITY_KIND_JIT, 64},
    {CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE, 0},
    {CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS, 0},
};
#elif SIMCUPTI_RELEASE == 124
constexpr uint32_t kReleaseVersion = 22;
constexpr uint32_t kLastDriverCall = 753;
constexpr uint32_t kLastRuntimeCall = 467;
constexpr OlderSize kOlderSizes[] = {
    {CUPTI_ACTIVITY_KIND_MEMCPY, 88},
    {CUPTI_ACTIVITY_KIND_KERNEL, 208},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 208},
    {CUPTI_ACTIVITY_KIND_CONTEXT, 24},
    {CUPTI_ACTIVITY_KIND_MARKER_DATA, 32},
    {CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, 64},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, 24},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 40},
    {CUPTI_ACTIVITY_KIND_MEMORY2, 120},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL, 72},
    {CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE, 0},
    {CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS, 0},
};
#else
constexpr uint32_t kReleaseVersion = CUPTI_API_VERSION;
constexpr uint32_t kLastDriverCall = UINT32_MAX;
constexpr uint32_t kLastRuntimeCall = UINT32_MAX;
// No kind has the number 0.
constexpr OlderSize kOlderSizes[] = {{0, 0}};
#endif

constexpr size_t in_this_release(uint32_t kind, size_t newest_bytes) {
  for (const OlderSize& older : kOlderSizes) {
    if (older.kind == kind) return older.bytes;
  }
  return newest_bytes;
}

constexpr bool knows_call(uint32_t domain, uint32_t id) {
  return id <= (domain == CUPTI_CB_DOMAIN_RUNTIME_API  ? kLastRuntimeCall
                : domain == CUPTI_CB_DOMAIN_DRIVER_API ? kLastDriverCall
                                                       : UINT32_MAX);
}

}  // namespace simcupti
