// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/intercept/real_symbols.h"

#include <dlfcn.h>
#include <link.h>

#include <climits>
#include <cstring>

namespace gpuidle::intercept {
namespace {

constexpr char kDriverName[] = "libcuda.so.1";
constexpr char kRuntimePrefix[] = "libcudart.so";

// dlsym's symbol versions: glibc 2.34 on, x86-64 before, AArch64 before.
constexpr const char* kDlsymVersions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

// `name` in the library `file`, if that is loaded; never loads it.
void* find_in_loaded(const char* file, const char* name) {
  const DlsymFunction real_dlsym = c_library_dlsym();
  void* const handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr || real_dlsym == nullptr) return nullptr;
  void* const function = real_dlsym(handle, name);
  dlclose(handle);  // gives back only the count that this dlopen took
  return function;
}

// The module around an address, and the first runtime library in load order.
struct ModuleSearch {
  std::uintptr_t address = 0;
  std::uintptr_t begin = 0;  // of the module; 0 = not found
  std::uintptr_t end = 0;
  char module[PATH_MAX] = "";
  char runtime[PATH_MAX] = "";
};

void copy_path(char (&to)[PATH_MAX], const char* from) {
  const std::size_t length = std::strlen(from);
  if (length < sizeof(to)) std::memcpy(to, from, length + 1);
}

int look_at_module(dl_phdr_info* info, std::size_t, void* argument) {
  auto* search = static_cast<ModuleSearch*>(argument);
  const char* path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  std::uintptr_t begin = UINTPTR_MAX;
  std::uintptr_t end = 0;
  bool is_inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const std::uintptr_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const std::uintptr_t last = first + info->dlpi_phdr[i].p_memsz;
    if (first < begin) begin = first;
    if (last > end) end = last;
    is_inside = is_inside || (search->address >= first && search->address < last);
  }
  if (is_inside) {
    search->begin = begin;
    search->end = end;
    copy_path(search->module, path);
  }
  const char* slash = std::strrchr(path, '/');
  const char* file = slash != nullptr ? slash + 1 : path;
  if (search->runtime[0] == '\0' &&
      std::strncmp(file, kRuntimePrefix, sizeof(kRuntimePrefix) - 1) == 0) {
    copy_path(search->runtime, path);
  }
  return 0;
}

const void* library_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace

std::atomic<DlsymFunction> g_next_dlsym{nullptr};
std::atomic<DlsymFunction> g_c_library_dlsym{nullptr};

DlsymFunction find_c_library_dlsym() noexcept {
  DlsymFunction found = nullptr;
  for (const char* version : kDlsymVersions) {
    found = reinterpret_cast<DlsymFunction>(dlvsym(RTLD_NEXT, "dlsym", version));
    if (found != nullptr) break;
  }
  g_c_library_dlsym.store(found, std::memory_order_release);
  return found;
}

DlsymFunction find_next_dlsym() noexcept {
  // Other interposers' dlsym has no version, so that only dlsym itself finds it.
  const DlsymFunction c_library = c_library_dlsym();
  DlsymFunction next = nullptr;
  if (c_library != nullptr) next = reinterpret_cast<DlsymFunction>(c_library(RTLD_NEXT, "dlsym"));
  if (next == nullptr) next = c_library;
  g_next_dlsym.store(next, std::memory_order_release);
  return next;
}

void* RealSymbol::find_slowly(const void* caller) noexcept {
  if (bindings_ != nullptr) {
    const auto address = reinterpret_cast<std::uintptr_t>(caller);
    for (const Bindings::Binding& binding : bindings_->modules) {
      if (binding.state.load(std::memory_order_acquire) != 2) continue;
      if (address >= binding.begin && address < binding.end) return binding.function;
    }
  }
  const DlsymFunction real_dlsym = c_library_dlsym();
  if (real_dlsym == nullptr) return nullptr;
  void* function = real_dlsym(RTLD_NEXT, name_);
  if (function == nullptr && library_ == CudaLibrary::runtime) return find_for_module(caller);
  if (function == nullptr) function = find_in_loaded(kDriverName, name_);
  if (function == nullptr) return nullptr;
  // Another thread may have come first, or adopt() with the address that the program knows.
  void* known = nullptr;
  return shared_.compare_exchange_strong(known, function, std::memory_order_acq_rel) ? function
                                                                                     : known;
}

void* RealSymbol::find_for_module(const void* caller) noexcept {
  ModuleSearch search;
  search.address = reinterpret_cast<std::uintptr_t>(caller);
  dl_iterate_phdr(look_at_module, &search);
  void* function = nullptr;
  if (search.module[0] != '\0') function = find_in_loaded(search.module, name_);
  // A caller without such a dependency (a pointer was passed on, a tail call): the first runtime.
  if (function == nullptr && search.runtime[0] != '\0') {
    function = find_in_loaded(search.runtime, name_);
  }
  if (function != nullptr && search.end != 0) keep_binding(search.begin, search.end, function);
  return function;
}

void RealSymbol::keep_binding(std::uintptr_t begin, std::uintptr_t end, void* function) noexcept {
  for (Bindings::Binding& binding : bindings_->modules) {
    std::uint32_t free = 0;
    if (!binding.state.compare_exchange_strong(free, 1, std::memory_order_relaxed)) continue;
    binding.begin = begin;
    binding.end = end;
    binding.function = function;
    binding.state.store(2, std::memory_order_release);
    return;
  }
}

bool RealSymbol::adopt(void* address) noexcept {
  void* known = nullptr;
  if (shared_.compare_exchange_strong(known, address, std::memory_order_acq_rel)) return true;
  return known == address || library_of(known) == library_of(address);
}

}  // namespace gpuidle::intercept
