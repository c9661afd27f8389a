// SPDX-License-Identifier: Apache-2.0
//
// Another interposer, preloaded behind us: wraps getppid and finds the real one by RTLD_NEXT. With
// a frame of ours between it and the C library's dlsym, "next" would be counted from our library,
// and the function would find itself.
#include <dlfcn.h>
#include <sys/types.h>

namespace {
int g_depth = 0;
}

extern "C" int neighbour_recursed();
extern "C" int neighbour_recursed() { return g_depth; }

extern "C" pid_t getppid() {
  if (g_depth > 0) return -1;  // called by itself
  ++g_depth;
  auto* const real = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "getppid"));
  const pid_t parent = real();
  --g_depth;
  return parent;
}
