// SPDX-License-Identifier: Apache-2.0
//
// Other walkers that the native stepper has to agree with: libgcc's, and libunwind's without its
// place in the program's symbols.
#pragma once

#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpuidle::test {

struct OracleStack {
  static constexpr int kMaxFrames = 220;
  std::array<std::uintptr_t, kMaxFrames> addresses;
  std::array<std::uintptr_t, kMaxFrames> stack_pointers;  ///< libgcc's alone
  int count = 0;
  std::uintptr_t address(int i) const { return addresses[static_cast<std::size_t>(i)]; }
  std::uintptr_t stack_pointer(int i) const { return stack_pointers[static_cast<std::size_t>(i)]; }
};

inline _Unwind_Reason_Code add_frame(_Unwind_Context* context, void* out) {
  auto& stack = *static_cast<OracleStack*>(out);
  // libgcc shows the end of a stack as a frame at 0.
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || stack.count == OracleStack::kMaxFrames) return _URC_END_OF_STACK;
  const auto index = static_cast<std::size_t>(stack.count++);
  stack.addresses[index] = address;
  // Of the frame inside: where this one begins.
  stack.stack_pointers[index] = _Unwind_GetCFA(context);
  return _URC_NO_REASON;
}

/// The caller's frame comes first.
__attribute__((always_inline)) inline void walk_with_libgcc(OracleStack* stack) {
  stack->count = 0;
  _Unwind_Backtrace(&add_frame, stack);
}

/// unw_backtrace of libunwind.so.8; nullptr: not installed.
inline int (*find_unw_backtrace())(void**, int) {
  static void* const library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr
             ? nullptr
             : reinterpret_cast<int (*)(void**, int)>(dlsym(library, "unw_backtrace"));
}

}  // namespace gpuidle::test
