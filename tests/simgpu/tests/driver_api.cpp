// SPDX-License-Identifier: Apache-2.0
// The driver API alone: PTX by name, look-up of entry points, contexts, errors, ids.
#include <cuda.h>

#include <cstring>

#include "check.h"

namespace {

const char kPtx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry gemm_tn(.param .u64 a) { ret; }\n.visible .entry\n  softmax_fwd(\n) { ret; "
    "}\n";

void look_up_entry_points() {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  CHECK_EQ(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, &status), 0);
  CHECK(function == reinterpret_cast<void*>(&cuMemAlloc));
  CHECK_EQ(cuGetProcAddress("cuNoSuchThing", &function, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
  CHECK_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK_EQ(cuGetProcAddress("cuLaunchKernelEx", &function, 4000, 0, &status), CUDA_ERROR_NOT_FOUND);
  CHECK_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  void* per_thread = nullptr;
  CHECK_EQ(cuGetProcAddress("cuStreamSynchronize", &function, 13000, 0, nullptr), 0);
  CHECK_EQ(cuGetProcAddress("cuStreamSynchronize", &per_thread, 13000,
                            CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr),
           0);
  CHECK(function != per_thread);
  CUuuid id{};
  const void* table = nullptr;
  CHECK_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
}

}  // namespace

int main() {
  int count = 0;
  CHECK_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  CHECK_EQ(cuInit(0), 0);
  CHECK_EQ(cuDeviceGetCount(&count), 0);
  CHECK_EQ(count, 2);
  CUdevice device;
  CHECK_EQ(cuDeviceGet(&device, 5), CUDA_ERROR_INVALID_DEVICE);
  CHECK_EQ(cuDeviceGet(&device, 1), 0);
  CUcontext context, current;
  CHECK_EQ(cuCtxGetCurrent(&current), 0);
  CHECK(current == nullptr);
  CUdeviceptr memory;
  CHECK_EQ(cuMemAlloc(&memory, 64), CUDA_ERROR_INVALID_CONTEXT);
  CHECK_EQ(cuDevicePrimaryCtxRetain(&context, device), 0);
  CHECK_EQ(cuCtxSetCurrent(context), 0);
  CHECK_EQ(cuCtxGetDevice(&device), 0);
  CHECK_EQ(device, 1);
  look_up_entry_points();
  CUmodule module;
  CUfunction function;
  CHECK_EQ(cuModuleLoadData(&module, kPtx), 0);
  CHECK_EQ(cuModuleGetFunction(&function, module, "softmax_fwd"), 0);
  CHECK_EQ(cuModuleGetFunction(&function, module, "gemm_nt"), CUDA_ERROR_NOT_FOUND);
  CHECK_EQ(cuModuleGetFunction(&function, module, "gemm_tn"), 0);
  const char* name = nullptr;
  CHECK_EQ(cuFuncGetName(&name, function), 0);
  CHECK(name && std::strcmp(name, "gemm_tn") == 0);
  CHECK_EQ(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr), 0);
  CHECK_EQ(cuLaunchKernel(function, 1, 1, 0, 128, 1, 1, 0, nullptr, nullptr, nullptr),
           CUDA_ERROR_INVALID_VALUE);
  CHECK_EQ(cuLaunchKernel(function, 1, 1, 1, 1025, 1, 1, 0, nullptr, nullptr, nullptr),
           CUDA_ERROR_INVALID_VALUE);
  CHECK_EQ(cuCtxSynchronize(), 0);
  CHECK_EQ(cuModuleLoadData(&module, "simgpu-any-name"), 0);
  CHECK_EQ(cuModuleGetFunction(&function, module, "whatever_kernel"), 0);
  CHECK_EQ(cuMemAlloc(&memory, 64), 0);
  CHECK_EQ(cuMemsetD32(memory, 0xabcd1234, 16), 0);
  unsigned value = 0;
  CHECK_EQ(cuMemcpyDtoH(&value, memory + 8, 4), 0);
  CHECK_EQ(value, 0xabcd1234);
  size_t bytes = 0;
  CUdeviceptr base = 0;
  CHECK_EQ(cuMemGetAddressRange(&base, &bytes, memory + 9), 0);
  CHECK_EQ(bytes, 64);
  CHECK_EQ(cuMemFree(memory), 0);
  CHECK_EQ(cuDevicePrimaryCtxRelease(1), 0);
  return finish_checks();
}
