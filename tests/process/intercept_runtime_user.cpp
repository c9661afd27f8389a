// SPDX-License-Identifier: Apache-2.0
//
// Like a Python extension that is linked with one CUDA runtime and opened with RTLD_LOCAL.
extern "C" int cudaDeviceSynchronize();
extern "C" int ask_runtime();
extern "C" int ask_runtime() { return cudaDeviceSynchronize() + 1000; }
