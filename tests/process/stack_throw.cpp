// SPDX-License-Identifier: Apache-2.0
//
// A library that throws and catches on request: for programs that do not need libgcc_s themselves,
// where a preloaded library's dependencies would take its place.
#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

__attribute__((noinline)) int fall(int depth) {
  if (depth == 0) throw std::runtime_error("on purpose");
  const int below = fall(depth - 1);
  asm volatile("" ::: "memory");
  return below + 1;
}

}  // namespace

extern "C" int stack_throw() {
  try {
    return fall(10);
  } catch (const std::exception& error) {
    std::printf("caught: %s\n", error.what());
    std::fflush(stdout);
    return 42;
  }
}
