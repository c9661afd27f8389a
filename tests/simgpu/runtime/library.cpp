// SPDX-License-Identifier: Apache-2.0
// Libraries loaded by the program itself, and attributes that a simulation keeps no state for.
#include <cstring>

#include "runtime/runtime.h"

using simrt::driver;
using simrt::finish;

cudaError_t RT(cudaLibraryLoadData)(cudaLibrary_t* library, const void* code, cudaJitOption*,
                                    void**, unsigned int, cudaLibraryOption*, void**,
                                    unsigned int) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
}
cudaError_t RT(cudaLibraryLoadFromFile)(cudaLibrary_t* library, const char* fileName,
                                        cudaJitOption*, void**, unsigned int, cudaLibraryOption*,
                                        void**, unsigned int) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuLibraryLoadFromFile(library, fileName, nullptr, nullptr, 0, nullptr, nullptr, 0));
}
cudaError_t RT(cudaLibraryUnload)(cudaLibrary_t library) {
  SIMRT_CONTEXT();
  return finish(driver().cuLibraryUnload(library));
}
cudaError_t RT(cudaLibraryGetKernel)(cudaKernel_t* pKernel, cudaLibrary_t library,
                                     const char* name) {
  SIMRT_CONTEXT();
  return finish(driver().cuLibraryGetKernel(pKernel, library, name));
}
cudaError_t RT(cudaLibraryGetGlobal)(void** dptr, size_t* bytes, cudaLibrary_t library,
                                     const char* name) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(dptr), bytes, library, name));
}
cudaError_t RT(cudaLibraryGetKernelCount)(unsigned int* count, cudaLibrary_t lib) {
  SIMRT_CONTEXT();
  return finish(driver().cuLibraryGetKernelCount(count, lib));
}

cudaError_t RT(cudaStreamSetAttribute)(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*) {
  SIMRT_CONTEXT();
  return cudaSuccess;
}
cudaError_t RT(cudaStreamGetAttribute)(cudaStream_t, cudaStreamAttrID,
                                       cudaStreamAttrValue* value_out) {
  SIMRT_CONTEXT();
  std::memset(static_cast<void*>(value_out), 0, sizeof *value_out);
  return cudaSuccess;
}
cudaError_t RT(cudaStreamCopyAttributes)(cudaStream_t, cudaStream_t) {
  SIMRT_CONTEXT();
  return cudaSuccess;
}
cudaError_t RT(cudaCtxResetPersistingL2Cache)(void) {
  SIMRT_CONTEXT();
  return cudaSuccess;
}
cudaError_t RT(cudaDeviceFlushGPUDirectRDMAWrites)(cudaFlushGPUDirectRDMAWritesTarget,
                                                   cudaFlushGPUDirectRDMAWritesScope) {
  SIMRT_CONTEXT();
  return cudaSuccess;
}

// Returned by value: a stub, which returns a number, would break the caller.
cudaChannelFormatDesc RT(cudaCreateChannelDesc)(int x, int y, int z, int w,
                                                cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}
