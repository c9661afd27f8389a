// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/libunwind_walk.h"

#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <ucontext.h>

#include "libgpuidle/stacks/stack_memory.h"

namespace gpuidle::stacks {
namespace {

// Written by prepare() before the first hook runs, read-only afterwards.
decltype(&unw_init_local) g_init = nullptr;
decltype(&unw_step) g_step = nullptr;
decltype(&unw_get_reg) g_get_register = nullptr;

std::uintptr_t register_at(unw_cursor_t* cursor, int which) {
  unw_word_t value = 0;
  return g_get_register(cursor, which, &value) == 0 ? static_cast<std::uintptr_t>(value) : 0;
}

}  // namespace

void LibunwindWalk::prepare() {
  // RTLD_LOCAL: in the global scope libunwind's _Unwind_* would take the place of libgcc's and make
  // every exception of the host 28 times slower, in some programs crash it.
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto init = reinterpret_cast<decltype(g_init)>(dlsym(library, "_ULx86_64_init_local"));
  const auto step = reinterpret_cast<decltype(g_step)>(dlsym(library, "_ULx86_64_step"));
  const auto get = reinterpret_cast<decltype(g_get_register)>(dlsym(library, "_ULx86_64_get_reg"));
  if (init == nullptr || step == nullptr || get == nullptr) return;
  g_init = init;
  g_step = step;
  g_get_register = get;
}

WalkResult LibunwindWalk::walk(const Registers& start, NativeFrame* frames, int max_frames) {
  WalkResult result;
  if (g_init == nullptr) return result;
  unw_context_t context{};
  for (std::size_t i = 0; i < kRegisterCount; ++i) {
    context.uc_mcontext.gregs[kContextRegisters[i]] = static_cast<greg_t>(start.values[i]);
  }
  unw_cursor_t cursor;
  if (g_init(&cursor, &context) != 0) return result;
  result.end = StackEnd::too_deep;
  while (result.count < max_frames) {
    const std::uintptr_t ip = register_at(&cursor, UNW_REG_IP);
    if (ip == 0) {
      result.end = StackEnd::complete;
      break;
    }
    const int stepped = g_step(&cursor);
    const std::uintptr_t cfa = stepped > 0 ? register_at(&cursor, UNW_REG_SP) : 0;
    frames[result.count++] = {reinterpret_cast<void*>(ip), cfa};
    if (stepped <= 0) {
      result.end = stepped == 0 ? StackEnd::complete : StackEnd::unsupported_rule;
      break;
    }
  }
  return result;
}

}  // namespace gpuidle::stacks
