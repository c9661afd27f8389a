// SPDX-License-Identifier: Apache-2.0
//
// Programs reach the driver by asking for its functions: the CUDA runtime, linked statically or
// not, opens libcuda.so.1, takes cuGetProcAddress from it by dlsym and everything else through
// that. So dlsym is interposed as well, for names of our table only; every other lookup leaves by a
// tail call, because the C library answers RTLD_NEXT and RTLD_DEFAULT by the caller's return
// address: with a frame of ours in between, another preloaded library that looks for the next
// function would find itself and recurse for ever. The build compiles this file with sibling-call
// optimisation at every level, and a test looks for the jump.
//
// dlvsym is not interposed: we could not find the real one without dlsym, nor that without dlvsym.
#include <cuda.h>
#include <dlfcn.h>

#include <string_view>

#include "libgpuidle/intercept/interposed_functions.h"

namespace gpuidle::intercept {
namespace {

const DriverFunction* find_symbol(std::string_view name) {
  for (const DriverFunction& function : driver_functions()) {
    if (function.symbol == name) return &function;
  }
  return nullptr;
}

bool means(const DriverFunction& function, int version) {
  return version >= function.since && (function.before == 0 || version < function.before);
}

// Of the variants of `base`, the one that the driver hands out for this version and stream mode.
const DriverFunction* find_variant(std::string_view base, int version, bool per_thread) {
  const DriverFunction* legacy = nullptr;
  bool has_per_thread = false;
  for (const DriverFunction& function : driver_functions()) {
    if (function.base != base) continue;
    has_per_thread = has_per_thread || function.per_thread;
    if (!means(function, version)) continue;
    if (function.per_thread == per_thread) return &function;
    if (!function.per_thread) legacy = &function;
  }
  // Functions without streams have one variant for both modes. Where a per-thread variant exists
  // but not for this version, it is not certain what the driver hands out.
  return per_thread && !has_per_thread ? legacy : nullptr;
}

}  // namespace

void* wrapper_for_symbol(void* handle, const char* name) noexcept {
  // RTLD_NEXT is asked by other interposers, for the function behind them. Ours is in front.
  if (handle == RTLD_NEXT) return kNotInterposed;
  const DriverFunction* const function = find_symbol(name);
  const DlsymFunction real_dlsym = next_dlsym();
  if (function == nullptr || real_dlsym == nullptr) return kNotInterposed;
  // The global scope contains us, so it always has the name; what counts is who is behind us.
  if (handle == RTLD_DEFAULT) handle = RTLD_NEXT;
  void* address = real_dlsym(handle, name);
  // There are interposers that answer a second RTLD_NEXT for one name with nothing.
  if (address == function->wrapper || (address == nullptr && handle == RTLD_NEXT)) {
    address = c_library_dlsym()(RTLD_NEXT, name);
  }
  if (address == nullptr) return nullptr;
  return function->real->adopt(address) ? function->wrapper : address;
}

void* wrapper_for_entry_point(const char* base, int version, unsigned long long flags,
                              void* address) noexcept {
  // A driver that is newer than our headers may mean a variant by a newer version that we do not
  // know, and its signature may differ.
  if (version > CUDA_VERSION) return address;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const DriverFunction* const function = find_variant(base, version, per_thread);
  if (function == nullptr || address == function->wrapper) return address;
  return function->real->adopt(address) ? function->wrapper : address;
}

}  // namespace gpuidle::intercept

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle,
                                                              const char* name) noexcept {
  using gpuidle::intercept::kNotInterposed;
  if (name[0] == 'c' && name[1] == 'u') {
    void* const wrapper = gpuidle::intercept::wrapper_for_symbol(handle, name);
    if (wrapper != kNotInterposed) return wrapper;
  }
  const gpuidle::intercept::DlsymFunction real_dlsym = gpuidle::intercept::next_dlsym();
  if (real_dlsym == nullptr) return nullptr;
  return real_dlsym(handle, name);
}
