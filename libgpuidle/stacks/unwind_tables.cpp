// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/unwind_tables.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "libgpuidle/base/loaded_objects.h"

namespace gpuidle::stacks {
namespace {

// As <dlfcn.h> of glibc 2.35 declares it for x86-64; older headers have neither.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame_hdr;
  unsigned long long reserved[7];
};
using FindObject = int (*)(void* address, FoundObject* result);

std::atomic<FindObject> g_find_object{nullptr};
std::atomic<std::uint32_t> g_generation{1};
unsigned long long g_loads = 0;  // of the drain thread alone, after prepare()
unsigned long long g_unloads = 0;

// The own table. Readers may be interrupted for as long as it pleases the system, so memory is
// never freed: two tables take turns, and a reader that finds the version changed looks again.
constexpr std::size_t kMaxObjects = 4096;  // the most seen in a training process is 300
struct Object {
  std::atomic<std::uintptr_t> begin;
  std::atomic<std::uintptr_t> end;
  std::atomic<const std::uint8_t*> eh_frame_hdr;
};
struct ObjectTable {
  std::atomic<std::size_t> count;
  std::array<Object, kMaxObjects> objects;
};
std::array<ObjectTable, 2> g_tables;  // in .bss: costs memory only where it is used
std::atomic<std::uint32_t> g_version{0};

struct Found {
  std::uintptr_t begin;
  std::uintptr_t end;
  const std::uint8_t* eh_frame_hdr;
};
struct Collection {
  std::array<Found, kMaxObjects> objects;
  std::size_t count;
};
Collection g_collection;  // of the drain thread; in .bss as well

int collect(dl_phdr_info* info, std::size_t, void* out) {
  auto* collection = static_cast<Collection*>(out);
  if (collection->count == kMaxObjects) return 1;
  Found found{UINTPTR_MAX, 0, nullptr};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      found.begin = std::min(found.begin, start);
      found.end = std::max(found.end, start + segment.p_memsz);
    } else if (segment.p_type == PT_GNU_EH_FRAME) {
      found.eh_frame_hdr = reinterpret_cast<const std::uint8_t*>(start);
    }
  }
  if (found.begin < found.end) collection->objects[collection->count++] = found;
  return 0;
}

void publish_own_table() {
  g_collection.count = 0;
  base::for_each_loaded_object(&collect, &g_collection);
  const auto end = g_collection.objects.begin() + static_cast<std::ptrdiff_t>(g_collection.count);
  std::sort(g_collection.objects.begin(), end,
            [](const Found& a, const Found& b) { return a.begin < b.begin; });
  const std::uint32_t version = g_version.load(std::memory_order_relaxed) + 1;
  ObjectTable& table = g_tables[version % g_tables.size()];
  // Release, each: no reader sees them before it sees the version that made this table idle.
  for (std::size_t i = 0; i < g_collection.count; ++i) {
    const Found& found = g_collection.objects[i];
    table.objects[i].begin.store(found.begin, std::memory_order_release);
    table.objects[i].end.store(found.end, std::memory_order_release);
    table.objects[i].eh_frame_hdr.store(found.eh_frame_hdr, std::memory_order_release);
  }
  table.count.store(g_collection.count, std::memory_order_release);
  g_version.store(version, std::memory_order_release);
}

// Acquire, each: the version is compared after the last of them.
const std::uint8_t* search(const ObjectTable& table, std::uintptr_t pc) {
  std::size_t low = 0;
  std::size_t high = std::min(table.count.load(std::memory_order_acquire), kMaxObjects);
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (table.objects[middle].begin.load(std::memory_order_acquire) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return nullptr;
  const Object& object = table.objects[low - 1];
  return pc < object.end.load(std::memory_order_acquire)
             ? object.eh_frame_hdr.load(std::memory_order_acquire)
             : nullptr;
}

const std::uint8_t* find_in_own_table(std::uintptr_t pc) {
  constexpr int kTries = 3;  // a table is replaced when libraries are loaded, not in a row
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t version = g_version.load(std::memory_order_acquire);
    const std::uint8_t* const found = search(g_tables[version % g_tables.size()], pc);
    if (g_version.load(std::memory_order_relaxed) == version) return found;
  }
  return nullptr;
}

struct LoaderCounts {
  unsigned long long loads = 0;
  unsigned long long unloads = 0;
};

int read_counts(dl_phdr_info* info, std::size_t, void* out) {
  *static_cast<LoaderCounts*>(out) = {info->dlpi_adds, info->dlpi_subs};
  return 1;
}

}  // namespace

void UnwindTables::prepare() {
  g_find_object.store(reinterpret_cast<FindObject>(dlsym(RTLD_DEFAULT, "_dl_find_object")),
                      std::memory_order_release);
  refresh();
}

void UnwindTables::refresh() {
  LoaderCounts counts;
  base::for_each_loaded_object(&read_counts, &counts);
  if (counts.loads == g_loads && counts.unloads == g_unloads) return;
  const bool is_unload = counts.unloads != g_unloads;
  g_loads = counts.loads;
  g_unloads = counts.unloads;
  if (g_find_object.load(std::memory_order_relaxed) == nullptr) publish_own_table();
  if (is_unload) g_generation.fetch_add(1, std::memory_order_release);
}

const std::uint8_t* UnwindTables::find(std::uintptr_t pc) {
  const FindObject find_object = g_find_object.load(std::memory_order_acquire);
  if (find_object == nullptr) return find_in_own_table(pc);
  FoundObject found;
  if (find_object(reinterpret_cast<void*>(pc), &found) != 0) return nullptr;
  return static_cast<const std::uint8_t*>(found.eh_frame_hdr);
}

std::uint32_t UnwindTables::generation() { return g_generation.load(std::memory_order_acquire); }

void UnwindTables::ignore_c_library() {
  g_find_object.store(nullptr, std::memory_order_release);
  publish_own_table();
}

}  // namespace gpuidle::stacks
