// SPDX-License-Identifier: Apache-2.0
//
// The table of the interposed driver functions, made from cuda_functions.def: which wrapper stands
// for which name and version. Made by interposers.cpp, asked by symbol_lookup.cpp.
#pragma once

#include <string_view>

#include "libgpuidle/intercept/real_symbols.h"

namespace gpuidle::intercept {

struct DriverFunction {
  std::string_view symbol;  ///< exported name, "cuMemcpyHtoDAsync_v2_ptsz"
  std::string_view base;    ///< name that cuGetProcAddress is asked for, "cuMemcpyHtoDAsync"
  int since;        ///< first CUDA version that means this symbol, 1000 * major + 10 * minor
  int before;       ///< first that means a later one, 0 = none known
  bool per_thread;  ///< the variant for per-thread default streams
  void* wrapper;
  RealSymbol* real;
};

/// Rows of a table in static storage. Context: hook.
struct DriverFunctions {
  const DriverFunction* first;
  const DriverFunction* last;
  const DriverFunction* begin() const { return first; }
  const DriverFunction* end() const { return last; }
};
DriverFunctions driver_functions() noexcept;

/// What dlsym(handle, name) should give instead of the real function: a wrapper, nullptr for "there
/// is no such function here", or kNotInterposed. Context: hook.
void* wrapper_for_symbol(void* handle, const char* name) noexcept;
inline void* const kNotInterposed = reinterpret_cast<void*>(-1);

/// What cuGetProcAddress should give for `base` instead of `address`: the wrapper, or `address`
/// itself where we do not interpose exactly that variant. `version` is what the program asked for,
/// `flags` are CUdriverProcAddress_flags. Context: hook.
void* wrapper_for_entry_point(const char* base, int version, unsigned long long flags,
                              void* address) noexcept;

}  // namespace gpuidle::intercept
