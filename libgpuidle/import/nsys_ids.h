// SPDX-License-Identifier: Apache-2.0
//
// The numbers of an Nsight Systems export: its ids of processes and threads taken apart, and its
// 64-bit columns that hold 32-bit values. For nsys_*.cpp alone.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuidle::import {

/// A globalTid is, from the low end, 24 bits of thread, 24 bits of process, then the machine; a
/// globalPid is the same without the thread.
constexpr std::int64_t kNsysIdMask = 0xffffff;
constexpr std::uint32_t tid_of(std::int64_t global_tid) {
  return static_cast<std::uint32_t>(global_tid & kNsysIdMask);
}
constexpr std::uint32_t pid_of(std::int64_t global_id) {
  return static_cast<std::uint32_t>(global_id >> 24 & kNsysIdMask);
}
constexpr std::int64_t global_pid_of(std::int64_t global_tid) { return global_tid & ~kNsysIdMask; }

/// 0 for what is absent, negative or too large.
constexpr std::uint32_t small_integer_of(std::optional<std::int64_t> value) {
  const bool fits = value && *value >= 0 && *value <= static_cast<std::int64_t>(UINT32_MAX);
  return fits ? static_cast<std::uint32_t>(*value) : 0;
}

}  // namespace gpuidle::import
