// SPDX-License-Identifier: Apache-2.0
//
// A CUDA runtime of one function, which answers with a number of its own (INTERCEPT_ANSWER), built
// twice: a process can hold two runtimes, and each caller must reach its own.
extern "C" int cudaDeviceSynchronize() { return INTERCEPT_ANSWER; }
