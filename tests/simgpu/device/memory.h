// SPDX-License-Identifier: Apache-2.0
// Memory of the simulated devices: ordinary pages of the process, known by address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace simgpu {

struct MemoryPool {
  uint32_t magic = 0x504f4f4c;
  Device* device = nullptr;
  uint64_t release_threshold = 0;
  uint64_t used_bytes = 0;
  uint64_t used_high_bytes = 0;
  int reuse[3] = {1, 1, 1};
  bool is_default = false;
};

struct Allocation {
  uintptr_t address = 0;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::unknown;
  Device* device = nullptr;
  Context* context = nullptr;
  uint64_t id = 0;
  unsigned flags = 0;
  bool registered = false;  // the program's own pages
  MemoryPool* pool = nullptr;
};

/// Zero-filled pages. Null if the device's capacity or the process's address space is used up.
void* allocate(Context* context, MemoryKind kind, size_t bytes, unsigned flags, MemoryPool* pool);

/// Frees an allocation that starts at `address`; false if there is none of that kind.
bool release(void* address, MemoryKind kind);

bool register_pages(Context* context, void* address, size_t bytes, unsigned flags);
bool unregister_pages(void* address);

/// The allocation that holds `address`.
bool find_allocation(const void* address, Allocation* found);

/// Kind for copies: pageable unless known.
MemoryKind memory_kind(const void* address, Device** device);

MemoryPool* default_pool(Device* device);
MemoryPool* to_pool(CUmemoryPool handle);

}  // namespace simgpu
