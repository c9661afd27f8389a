// SPDX-License-Identifier: Apache-2.0
//
// Where the real CUDA functions are. Asked by every wrapper of interposers.cpp; found lazily, since
// the CUDA libraries may be opened long after us, and kept in atomics: no lock, no heap.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuidle::intercept {

enum class CudaLibrary : std::uint8_t { runtime, driver };

using DlsymFunction = void* (*)(void* handle, const char* name) noexcept;

extern std::atomic<DlsymFunction> g_next_dlsym;
extern std::atomic<DlsymFunction> g_c_library_dlsym;
DlsymFunction find_next_dlsym() noexcept;
DlsymFunction find_c_library_dlsym() noexcept;

/// The C library's own dlsym, for lookups of our own: what comes after us in the order of
/// libraries, whatever other interposers answer to a program. nullptr only where the C library does
/// not know it by any version that we know. Context: hook.
inline DlsymFunction c_library_dlsym() noexcept {
  const DlsymFunction known = g_c_library_dlsym.load(std::memory_order_acquire);
  return known != nullptr ? known : find_c_library_dlsym();
}

/// The next dlsym after ours, for the program's lookups: another interposer's, or the C library's.
/// nullptr as above. Context: hook.
inline DlsymFunction next_dlsym() noexcept {
  const DlsymFunction known = g_next_dlsym.load(std::memory_order_acquire);
  return known != nullptr ? known : find_next_dlsym();
}

/// One real function. Constant-initialised.
///
/// Normally one address serves all callers: the one that the global scope gives after us, or the
/// driver's. A runtime library that was opened with RTLD_LOCAL (a Python extension's) is in no
/// global scope, and a process can have two of them; then each calling module is given the one
/// among its own dependencies, as the dynamic linker would have done without us.
class RealSymbol {
 public:
  struct Bindings;
  /// `bindings` are this symbol's own, for functions of the runtime; nullptr for the driver's, of
  /// which a process has one. They lie apart so that what the loader has to write when the library
  /// is mapped stays small: it is paid by every program that is started.
  constexpr RealSymbol(const char* name, CudaLibrary library, Bindings* bindings)
      : name_(name), library_(library), bindings_(bindings) {}

  /// The function for a call that returns to `caller`; nullptr if there is none. 1 ns when it was
  /// asked before; the first time it walks the loaded modules. errno may change then.
  /// Context: hook (the first call of a module takes the dynamic linker's lock, as lazy binding
  /// of that call would have).
  void* find(const void* caller) noexcept {
    void* const shared = shared_.load(std::memory_order_acquire);
    return shared != nullptr ? shared : find_slowly(caller);
  }

  /// Offers an address that the program was given for this function (by dlsym or cuGetProcAddress).
  /// True if the wrapper stands for it: it is the known address, becomes it, or lies in the same
  /// library. False: another library's; the program must get it as it is. Driver functions only.
  bool adopt(void* address) noexcept;

 private:
  void* find_slowly(const void* caller) noexcept;
  void* find_for_module(const void* caller) noexcept;
  void keep_binding(std::uintptr_t begin, std::uintptr_t end, void* function) noexcept;

  const char* name_;
  CudaLibrary library_;
  std::atomic<void*> shared_{nullptr};
  Bindings* bindings_;
};

/// Which function the calls of each module go to.
struct RealSymbol::Bindings {
  // Modules that call one function of a runtime opened with RTLD_LOCAL; further ones are looked up
  // at each call.
  static constexpr std::size_t kMaxModules = 16;

  // `state` guards the rest: 0 free, 1 being filled, 2 valid.
  struct Binding {
    std::atomic<std::uint32_t> state{0};
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    void* function = nullptr;
  };
  std::array<Binding, kMaxModules> modules{};
};

}  // namespace gpuidle::intercept
