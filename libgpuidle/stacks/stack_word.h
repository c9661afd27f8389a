// SPDX-License-Identifier: Apache-2.0
//
// One level of a captured stack as it travels through a thread's ring: 64 bits that are either a
// native return address or a Python code object with a position in it. Written by the merge, told
// apart by the drain thread.
#pragma once

#include <cstdint>

namespace gpuidle::stacks {

/// Addresses of user space never have it.
inline constexpr std::uint64_t kPythonWord = std::uint64_t{1} << 63;
/// Code id of a frame whose code object could not be entered into the code table.
inline constexpr std::uint32_t kUnnamedCode = 0;

/// Position of a frame whose instruction pointer lies outside of its code.
inline constexpr std::int32_t kNoPosition = INT32_MAX;

constexpr bool is_python_word(std::uint64_t word) { return (word & kPythonWord) != 0; }

/// `position` is the byte of the instruction, negative: the frame has not begun.
constexpr std::uint64_t python_word(std::uint32_t code_id, std::int32_t position) {
  return kPythonWord | std::uint64_t{code_id & 0x7fffffffu} << 32 |
         static_cast<std::uint32_t>(position);
}
constexpr std::uint32_t code_id_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32) & 0x7fffffffu;
}
constexpr std::int32_t position_of(std::uint64_t word) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
}

}  // namespace gpuidle::stacks
