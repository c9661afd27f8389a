// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/call_stack.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "libgpuidle/base/loaded_objects.h"
#include "libgpuidle/stacks/libunwind_walk.h"
#include "libgpuidle/stacks/thread_walkers.h"
#include "libgpuidle/stacks/unwind_tables.h"

namespace gpuidle::stacks {
namespace {

// Written by prepare() before the first hook runs, read-only afterwards.
bool g_is_prepared = false;
const char* g_reason = "not prepared";
// Code of this library, [begin, end): its frames are dropped.
std::uintptr_t g_own_begin = 0;
std::uintptr_t g_own_end = 0;

std::array<std::atomic<std::uint64_t>, 5> g_ends{};

// Frames of ours in front of the program's: capture, merge, recorder, hook.
constexpr int kMaxOwnFrames = 8;
static_assert(CallStack::kMaxFrames + kMaxOwnFrames <= StackWalker::kMaxFrames);

bool is_own(const NativeFrame& frame) {
  const auto value = reinterpret_cast<std::uintptr_t>(frame.return_address);
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

void note_end(StackEnd end, bool* is_truncated) {
  *is_truncated = end != StackEnd::complete;
  if (*is_truncated) {
    g_ends[static_cast<std::size_t>(end)].fetch_add(1, std::memory_order_relaxed);
  }
}

WalkResult walk_from(StackWalker& walker, const Registers& start, NativeFrame* frames,
                     int max_frames) {
  WalkResult result = walker.walk(start, frames, max_frames);
  // libunwind would hang in a handler sooner or later.
  if (result.end == StackEnd::unsupported_rule && !result.has_signal_frame) {
    NativeFrame others[StackWalker::kMaxFrames];
    const WalkResult other = LibunwindWalk::walk(start, others, max_frames);
    if (other.count > result.count) {
      std::copy(others, others + other.count, frames);
      result = other;
    }
  }
  return result;
}

}  // namespace

bool CallStack::prepare() {
  UnwindTables::prepare();
  LibunwindWalk::prepare();
  base::for_each_loaded_object(&find_own_segments, nullptr);
  StackWalker* const walker = ThreadWalkers::of_this_thread();
  if (walker == nullptr) {
    g_reason = "the bounds of the stack are not known (/proc/self/maps cannot be read)";
    return false;
  }
  NativeFrame frames[2];
  if (walker->walk(capture_registers(), frames, 2).count < 2) {
    g_reason = "the unwind tables of this library cannot be used";
    return false;
  }
  g_is_prepared = true;
  g_reason = "";
  return true;
}

const char* CallStack::unavailable_reason() { return g_reason; }

std::uint64_t CallStack::unfinished(StackEnd end) {
  return g_ends[static_cast<std::size_t>(end)].load(std::memory_order_relaxed);
}

void CallStack::refresh() {
  if (!g_is_prepared) return;
  UnwindTables::refresh();
  ThreadWalkers::reclaim();
}

__attribute__((noinline)) int CallStack::capture_frames(NativeFrame* frames, int max_frames,
                                                        bool* is_truncated) {
  *is_truncated = false;
  StackWalker* const walker = g_is_prepared ? ThreadWalkers::of_this_thread() : nullptr;
  if (walker == nullptr || max_frames <= 0) return 0;
  const int wanted = std::min(max_frames, kMaxFrames);
  NativeFrame raw[StackWalker::kMaxFrames];
  const WalkResult result = walk_from(*walker, capture_registers(), raw, wanted + kMaxOwnFrames);
  int first = 0;
  while (first < result.count && is_own(raw[first])) ++first;
  const int kept = std::min(result.count - first, wanted);
  note_end(first + kept < result.count ? StackEnd::too_deep : result.end, is_truncated);
  if (kept <= 0) return 0;
  std::memcpy(frames, raw + first, static_cast<std::size_t>(kept) * sizeof(NativeFrame));
  return kept;
}

int CallStack::capture(void** frames, int max_frames) {
  NativeFrame taken[kMaxFrames];
  bool is_truncated = false;
  const int count = capture_frames(taken, std::min(max_frames, kMaxFrames), &is_truncated);
  for (int i = 0; i < count; ++i) frames[i] = taken[i].return_address;
  return count;
}

int CallStack::capture_interrupted(const void* signal_context, NativeFrame* frames, int max_frames,
                                   bool* is_truncated) {
  *is_truncated = false;
  StackWalker* const walker = ThreadWalkers::existing_of_this_thread();
  if (walker == nullptr) return 0;
  const WalkResult result = walker->walk(registers_of(signal_context), frames, max_frames);
  note_end(result.end, is_truncated);
  return result.count;
}

}  // namespace gpuidle::stacks
