// SPDX-License-Identifier: Apache-2.0
#include "device/memory.h"

#include <sys/mman.h>

#include <map>
#include <vector>

#include "device/settings.h"

namespace simgpu {
namespace {

constexpr size_t kPageBytes = 4096;
// Small blocks of pools come back at once and in great number; they skip mmap.
constexpr size_t kCachedBlocks = 64;

struct Registry {
  std::mutex mutex;
  std::map<uintptr_t, Allocation> allocations;
  std::map<size_t, std::vector<void*>> cached;
  uint64_t next_id = 1;
};

Registry& registry() {
  static auto* value = new Registry;
  return *value;
}

bool counts(const Allocation& allocation) {
  return allocation.device != nullptr &&
         (allocation.kind == MemoryKind::device || allocation.kind == MemoryKind::managed ||
          allocation.kind == MemoryKind::array);
}

void* take_pages(Registry& memory, size_t bytes, bool cacheable) {
  auto cached = cacheable ? memory.cached.find(bytes) : memory.cached.end();
  if (cached != memory.cached.end() && !cached->second.empty()) {
    void* pages = cached->second.back();
    cached->second.pop_back();
    return pages;
  }
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

// Requires the registry's mutex.
std::map<uintptr_t, Allocation>::iterator holder(Registry& memory, const void* address) {
  auto value = reinterpret_cast<uintptr_t>(address);
  auto next = memory.allocations.upper_bound(value);
  if (next == memory.allocations.begin()) return memory.allocations.end();
  --next;
  const Allocation& allocation = next->second;
  return value < allocation.address + allocation.bytes ? next : memory.allocations.end();
}

}  // namespace

void* allocate(Context* context, MemoryKind kind, size_t bytes, unsigned flags, MemoryPool* pool) {
  size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  Registry& memory = registry();
  std::lock_guard<std::mutex> lock(memory.mutex);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.device = pool ? pool->device : context->device;
  allocation.context = context;
  allocation.flags = flags;
  allocation.pool = pool;
  allocation.id = memory.next_id++;
  Device* device = allocation.device;
  if (counts(allocation) &&
      (rounded < bytes || device->used_bytes + rounded > settings().memory_bytes)) {
    return nullptr;
  }
  void* pages = take_pages(memory, rounded, pool != nullptr);
  if (pages == nullptr) return nullptr;
  if (counts(allocation)) device->used_bytes += rounded;
  if (pool) {
    pool->used_bytes += rounded;
    if (pool->used_bytes > pool->used_high_bytes) pool->used_high_bytes = pool->used_bytes;
  }
  allocation.address = reinterpret_cast<uintptr_t>(pages);
  memory.allocations[allocation.address] = allocation;
  return pages;
}

bool release(void* address, MemoryKind kind) {
  Registry& memory = registry();
  std::lock_guard<std::mutex> lock(memory.mutex);
  auto found = memory.allocations.find(reinterpret_cast<uintptr_t>(address));
  if (found == memory.allocations.end() || found->second.registered) return false;
  Allocation allocation = found->second;
  bool host = allocation.kind == MemoryKind::pinned;
  if (host != (kind == MemoryKind::pinned)) return false;
  if ((kind == MemoryKind::array) != (allocation.kind == MemoryKind::array)) return false;
  size_t rounded = (allocation.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (counts(allocation)) allocation.device->used_bytes -= rounded;
  memory.allocations.erase(found);
  if (allocation.pool) {
    allocation.pool->used_bytes -= rounded;
    auto& blocks = memory.cached[rounded];
    if (blocks.size() < kCachedBlocks) {
      blocks.push_back(address);
      return true;
    }
  }
  munmap(address, rounded);
  return true;
}

bool register_pages(Context* context, void* address, size_t bytes, unsigned flags) {
  Registry& memory = registry();
  std::lock_guard<std::mutex> lock(memory.mutex);
  if (holder(memory, address) != memory.allocations.end()) return false;
  Allocation allocation;
  allocation.address = reinterpret_cast<uintptr_t>(address);
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::pinned;
  allocation.device = context->device;
  allocation.context = context;
  allocation.flags = flags;
  allocation.registered = true;
  allocation.id = memory.next_id++;
  memory.allocations[allocation.address] = allocation;
  return true;
}

bool unregister_pages(void* address) {
  Registry& memory = registry();
  std::lock_guard<std::mutex> lock(memory.mutex);
  auto found = memory.allocations.find(reinterpret_cast<uintptr_t>(address));
  if (found == memory.allocations.end() || !found->second.registered) return false;
  memory.allocations.erase(found);
  return true;
}

bool find_allocation(const void* address, Allocation* found) {
  Registry& memory = registry();
  std::lock_guard<std::mutex> lock(memory.mutex);
  auto entry = holder(memory, address);
  if (entry == memory.allocations.end()) return false;
  *found = entry->second;
  return true;
}

MemoryKind memory_kind(const void* address, Device** device) {
  Allocation allocation;
  if (!find_allocation(address, &allocation)) return MemoryKind::pageable;
  if (device) *device = allocation.device;
  return allocation.kind;
}

MemoryPool* default_pool(Device* device) {
  DeviceLock lock(device_lock());
  if (device->default_pool == nullptr) {
    device->default_pool = new MemoryPool;
    device->default_pool->device = device;
    device->default_pool->is_default = true;
  }
  return device->default_pool;
}

MemoryPool* to_pool(CUmemoryPool handle) {
  auto* pool = reinterpret_cast<MemoryPool*>(handle);
  static const uint32_t kMagic = MemoryPool().magic;
  return pool && pool->magic == kMagic ? pool : nullptr;
}

}  // namespace simgpu
