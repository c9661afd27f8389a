// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/call_stack.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuidle::stacks {
namespace {

using Backtrace = int (*)(void** frames, int max_frames);

// Written by prepare() before the first hook runs, read-only afterwards.
Backtrace g_backtrace = nullptr;
const char* g_reason = "not prepared";
// Code of this library, [begin, end): its frames are dropped.
std::uintptr_t g_own_begin = 0;
std::uintptr_t g_own_end = 0;

// Frames of ours between unw_backtrace and the program: a hook, the recorder, capture() itself.
constexpr int kMaxOwnFrames = 8;
constexpr int kMaxCaptured = 136;  // kMaxOwnFrames + the most that anybody keeps

bool is_own(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value >= g_own_begin && value < g_own_end;
}

int find_own_segments(dl_phdr_info* info, std::size_t, void*) {
  const auto here = reinterpret_cast<std::uintptr_t>(&find_own_segments);
  std::uintptr_t begin = UINTPTR_MAX;
  std::uintptr_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    begin = std::min(begin, start);
    end = std::max(end, start + segment.p_memsz);
  }
  if (here < begin || here >= end) return 0;
  g_own_begin = begin;
  g_own_end = end;
  return 1;
}

}  // namespace

bool CallStack::prepare() {
  // RTLD_LOCAL: in the global scope libunwind's _Unwind_* would take the place of libgcc's and make
  // every exception of the host 28 times slower, in some programs crash it.
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    g_reason = "libunwind.so.8 cannot be opened (install libunwind8)";
    return false;
  }
  g_backtrace = reinterpret_cast<Backtrace>(dlsym(library, "unw_backtrace"));
  if (g_backtrace == nullptr) {
    g_reason = "libunwind.so.8 has no unw_backtrace";
    return false;
  }
  dl_iterate_phdr(&find_own_segments, nullptr);
  void* frames[4];
  if (capture(frames, 4) == 0) {
    g_backtrace = nullptr;
    g_reason = "libunwind cannot walk a stack in this process";
    return false;
  }
  g_reason = "";
  return true;
}

const char* CallStack::unavailable_reason() { return g_reason; }

int CallStack::capture(void** frames, int max_frames) {
  if (g_backtrace == nullptr) return 0;
  void* raw[kMaxCaptured];
  const int count = g_backtrace(raw, std::min(max_frames + kMaxOwnFrames, kMaxCaptured));
  int first = 0;
  while (first < count && is_own(raw[first])) ++first;
  const int kept = std::min(count - first, max_frames);
  if (kept <= 0) return 0;
  std::memcpy(frames, raw + first, static_cast<std::size_t>(kept) * sizeof(void*));
  return kept;
}

}  // namespace gpuidle::stacks
