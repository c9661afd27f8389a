// SPDX-License-Identifier: Apache-2.0
// A library for CUDA_INJECTION64_PATH.
#include <cstdio>

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  std::puts("injected");
  return 1;
}
