// SPDX-License-Identifier: Apache-2.0
// Modules and libraries. Both are one kind of object here, and so are functions and kernels.
#include "device/module.h"

#include <fstream>
#include <iterator>

#include "driver/driver.h"

using simgpu::Context;
using simgpu::Kernel;
using simgpu::Library;
using simgpu::need_context;
using simgpu::to_kernel;
using simgpu::to_library;

namespace {

template <typename Handle>
CUresult load(Handle* handle, const void* image) {
  if (!simgpu::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  Library* library = simgpu::load_image(image);
  *handle = reinterpret_cast<Handle>(library);
  return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

template <typename Handle>
CUresult load_file(Handle* handle, const char* name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  image.resize(image.size() + 64);  // headers are read before their size is known
  return load(handle, image.data());
}

template <typename Handle>
CUresult get_kernel(Handle* handle, Library* library, const char* name) {
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Kernel* kernel = simgpu::find_kernel(library, name);
  *handle = reinterpret_cast<Handle>(kernel);
  return kernel ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult get_variable(CUdeviceptr* dptr, size_t* bytes, Library* library, const char* name) {
  SIMGPU_CONTEXT(context);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  simgpu::Variable* variable = simgpu::find_variable(context, library, name);
  if (variable == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (dptr) *dptr = reinterpret_cast<CUdeviceptr>(variable->address);
  if (bytes) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

// Kernels stay known after the unload: their names are still in the queues.
CUresult unload(Library* library) {
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  library->magic = 0;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult DRV(cuModuleLoad)(CUmodule* module, const char* fname) { return load_file(module, fname); }
CUresult DRV(cuModuleLoadData)(CUmodule* module, const void* image) {
  SIMGPU_CONTEXT(context);
  return image ? load(module, image) : CUDA_ERROR_INVALID_VALUE;
}
CUresult DRV(cuModuleLoadDataEx)(CUmodule* module, const void* image, unsigned int, CUjit_option*,
                                 void**) {
  return DRV(cuModuleLoadData)(module, image);
}
CUresult DRV(cuModuleLoadFatBinary)(CUmodule* module, const void* fatCubin) {
  return DRV(cuModuleLoadData)(module, fatCubin);
}
CUresult DRV(cuModuleUnload)(CUmodule hmod) { return unload(to_library(hmod)); }
CUresult DRV(cuModuleGetFunction)(CUfunction* hfunc, CUmodule hmod, const char* name) {
  return get_kernel(hfunc, to_library(hmod), name);
}
CUresult DRV(cuModuleGetGlobal_v2)(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod,
                                   const char* name) {
  return get_variable(dptr, bytes, to_library(hmod), name);
}
CUresult DRV(cuModuleGetLoadingMode)(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
CUresult DRV(cuFuncGetModule)(CUmodule* hmod, CUfunction hfunc) {
  Kernel* kernel = to_kernel(hfunc);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *hmod = reinterpret_cast<CUmodule>(kernel->library);
  return CUDA_SUCCESS;
}
CUresult DRV(cuFuncLoad)(CUfunction function) {
  return to_kernel(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult DRV(cuFuncIsLoaded)(CUfunctionLoadingState* state, CUfunction function) {
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return to_kernel(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult DRV(cuLibraryLoadData)(CUlibrary* library, const void* code, CUjit_option*, void**,
                                unsigned int, CUlibraryOption*, void**, unsigned int) {
  return load(library, code);
}
CUresult DRV(cuLibraryLoadFromFile)(CUlibrary* library, const char* fileName, CUjit_option*, void**,
                                    unsigned int, CUlibraryOption*, void**, unsigned int) {
  return load_file(library, fileName);
}
CUresult DRV(cuLibraryUnload)(CUlibrary library) { return unload(to_library(library)); }
CUresult DRV(cuLibraryGetKernel)(CUkernel* pKernel, CUlibrary library, const char* name) {
  return get_kernel(pKernel, to_library(library), name);
}
CUresult DRV(cuLibraryGetKernelCount)(unsigned int* count, CUlibrary lib) {
  Library* library = to_library(lib);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}
CUresult DRV(cuLibraryGetModule)(CUmodule* pMod, CUlibrary library) {
  *pMod = reinterpret_cast<CUmodule>(to_library(library));
  return *pMod ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult DRV(cuLibraryGetGlobal)(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                 const char* name) {
  return get_variable(dptr, bytes, to_library(library), name);
}
CUresult DRV(cuLibraryGetManaged)(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                  const char* name) {
  return get_variable(dptr, bytes, to_library(library), name);
}
CUresult DRV(cuKernelGetFunction)(CUfunction* pFunc, CUkernel kernel) {
  *pFunc = reinterpret_cast<CUfunction>(to_kernel(kernel));
  return *pFunc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult DRV(cuKernelGetLibrary)(CUlibrary* pLib, CUkernel kernel) {
  Kernel* found = to_kernel(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pLib = reinterpret_cast<CUlibrary>(found->library);
  return CUDA_SUCCESS;
}
