// SPDX-License-Identifier: Apache-2.0
//
// Words of a stack that is being walked. Inside of StackWalker only, which checks the addresses.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "libgpuidle/stacks/eh_frame.h"

namespace gpuidle::stacks {

/// The word at a readable address. Not a C++ read: the memory belongs to other functions' frames,
/// which the compiler and its sanitizers would have an opinion about.
inline std::uintptr_t load_word(std::uintptr_t address) {
  std::uintptr_t value;
  asm volatile("movq (%1), %0" : "=r"(value) : "r"(address));
  return value;
}

inline constexpr std::uintptr_t word_at(std::uintptr_t base, std::int64_t slot) {
  return base + static_cast<std::uintptr_t>(slot * 8);
}

/// Index in a ucontext_t's gregs, by DWARF number.
inline constexpr std::array<std::uint8_t, kRegisterCount> kContextRegisters = {
    REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
    REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

/// Where a register is in the ucontext_t that the kernel left at the address `context`.
inline std::uintptr_t context_slot(std::uintptr_t context, std::size_t dwarf_register) {
  constexpr std::uintptr_t kRegistersOffset = offsetof(ucontext_t, uc_mcontext.gregs);
  return word_at(context + kRegistersOffset, kContextRegisters[dwarf_register]);
}

}  // namespace gpuidle::stacks
