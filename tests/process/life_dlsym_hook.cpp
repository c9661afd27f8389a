// SPDX-License-Identifier: Apache-2.0
//
// Another tool in the preload chain: like the GPU-sharing libraries of container platforms it
// interposes dlsym and hands out its own launch function. At the end it says how many launches went
// through it.
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace {

using Dlsym = void* (*)(void*, const char*);
using Launch = decltype(&cuLaunchKernel);
using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

std::atomic<long> g_launches{0};
std::atomic<Launch> g_launch{nullptr};
std::atomic<GetProcAddress> g_get_proc_address{nullptr};

Dlsym next_dlsym() {
  static const auto next = [] {
    void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return reinterpret_cast<Dlsym>(found);
  }();
  return next;
}

CUresult counted_launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** arguments, void** extra) {
  ++g_launches;
  return g_launch.load()(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                         stream, arguments, extra);
}

CUresult counted_get_proc_address(const char* name, void** address, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* found) {
  const CUresult result = g_get_proc_address.load()(name, address, version, flags, found);
  if (result == CUDA_SUCCESS && std::strcmp(name, "cuLaunchKernel") == 0 && flags == 0) {
    g_launch = reinterpret_cast<Launch>(*address);
    *address = reinterpret_cast<void*>(&counted_launch);
  }
  return result;
}

__attribute__((destructor)) void say_count() {
  if (g_launches != 0) std::fprintf(stderr, "dlsym hook: %ld launches\n", g_launches.load());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle,
                                                              const char* name) noexcept {
  void* const address = next_dlsym()(handle, name);
  if (address == nullptr) return nullptr;
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) {
    g_get_proc_address = reinterpret_cast<GetProcAddress>(address);
    return reinterpret_cast<void*>(&counted_get_proc_address);
  }
  if (std::strcmp(name, "cuLaunchKernel") == 0) {
    g_launch = reinterpret_cast<Launch>(address);
    return reinterpret_cast<void*>(&counted_launch);
  }
  return address;
}
