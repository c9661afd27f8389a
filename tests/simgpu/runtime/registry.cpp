// SPDX-License-Identifier: Apache-2.0
// What nvcc's host code registers: fat binaries, kernels, variables. Registration runs in static
// constructors, possibly before any of this library's own, so the registry is made on first use,
// and it is leaked. Images are loaded on the first use of something in them.
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/runtime.h"

namespace {

struct FatBinary;

struct VariableEntry {
  std::string name;
  size_t bytes = 0;
  void** managed_pointer = nullptr;
  CUdeviceptr address = 0;
  FatBinary* binary = nullptr;
};

struct FatBinary {
  void* wrapper = nullptr;
  CUlibrary library = nullptr;
  bool tried = false;
  std::vector<VariableEntry*> managed;
};

struct KernelEntry {
  std::string name;
  FatBinary* binary = nullptr;
  CUkernel kernel = nullptr;
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, KernelEntry> kernels;
  std::unordered_map<const void*, VariableEntry> variables;
  std::unordered_map<const void*, const char*> names;  // by kernel handle
};

Registry& registry() {
  static auto* value = new Registry;
  return *value;
}

FatBinary* binary_of(void** handle) { return reinterpret_cast<FatBinary*>(handle); }

// Requires the registry's mutex.
CUlibrary load(FatBinary* binary) {
  if (!binary->tried) {
    binary->tried = true;
    simrt::driver().cuLibraryLoadData(&binary->library, binary->wrapper, nullptr, nullptr, 0,
                                      nullptr, nullptr, 0);
  }
  return binary->library;
}

// Requires the registry's mutex.
cudaError_t locate(VariableEntry* variable) {
  if (variable->address != 0) return cudaSuccess;
  size_t bytes = 0;
  CUlibrary library = load(variable->binary);
  if (library == nullptr ||
      simrt::driver().cuLibraryGetGlobal(&variable->address, &bytes, library,
                                         variable->name.c_str()) != CUDA_SUCCESS) {
    // An image that could not be read: the registered size is all there is to know.
    CUresult result = variable->managed_pointer
                          ? simrt::driver().cuMemAllocManaged(&variable->address, variable->bytes,
                                                              CU_MEM_ATTACH_GLOBAL)
                          : simrt::driver().cuMemAlloc(&variable->address, variable->bytes);
    if (result != CUDA_SUCCESS) return static_cast<cudaError_t>(result);
  }
  if (variable->managed_pointer) {
    *variable->managed_pointer = reinterpret_cast<void*>(variable->address);
  }
  return cudaSuccess;
}

}  // namespace

namespace simrt {

CUkernel find_kernel(const void* symbol) {
  Registry& state = registry();
  {
    std::shared_lock<std::shared_mutex> lock(state.mutex);
    auto found = state.kernels.find(symbol);
    if (found == state.kernels.end()) {
      if (state.names.count(symbol)) {
        return static_cast<CUkernel>(const_cast<void*>(symbol));
      }
    } else if (found->second.kernel) {
      return found->second.kernel;
    }
  }
  std::unique_lock<std::shared_mutex> lock(state.mutex);
  auto found = state.kernels.find(symbol);
  if (found == state.kernels.end()) {
    // Documented: launches also take a cudaKernel_t or cudaFunction_t, here from the driver.
    auto handle = static_cast<CUkernel>(const_cast<void*>(symbol));
    const char* name = nullptr;
    if (symbol == nullptr || driver().cuKernelGetName(&name, handle) != CUDA_SUCCESS) {
      return nullptr;
    }
    state.names[symbol] = name;
    return handle;
  }
  KernelEntry& entry = found->second;
  CUlibrary library = load(entry.binary);
  if (entry.kernel == nullptr && library != nullptr &&
      driver().cuLibraryGetKernel(&entry.kernel, library, entry.name.c_str()) == CUDA_SUCCESS) {
    state.names[entry.kernel] = entry.name.c_str();
  }
  return entry.kernel;
}

const char* kernel_name(const void* symbol) {
  Registry& state = registry();
  std::shared_lock<std::shared_mutex> lock(state.mutex);
  auto found = state.kernels.find(symbol);
  if (found != state.kernels.end()) return found->second.name.c_str();
  auto name = state.names.find(symbol);
  return name != state.names.end() ? name->second : nullptr;
}

cudaError_t find_symbol(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  Registry& state = registry();
  std::unique_lock<std::shared_mutex> lock(state.mutex);
  auto found = state.variables.find(symbol);
  if (found == state.variables.end()) return cudaErrorInvalidSymbol;
  cudaError_t error = locate(&found->second);
  *address = found->second.address;
  *bytes = found->second.bytes;
  return error;
}

}  // namespace simrt

void** RT(__cudaRegisterFatBinary)(void* fatCubin) {
  auto* binary = new FatBinary;
  binary->wrapper = fatCubin;
  return reinterpret_cast<void**>(binary);
}

void RT(__cudaRegisterFatBinaryEnd)(void**) {}

// Called at exit; kernels may still be launched by later destructors, so nothing is taken down.
void RT(__cudaUnregisterFatBinary)(void**) {}

void RT(__cudaRegisterFunction)(void** fatCubinHandle, const char* hostFun, char*,
                                const char* deviceName, int, uint3*, uint3*, dim3*, dim3*, int*) {
  Registry& state = registry();
  std::unique_lock<std::shared_mutex> lock(state.mutex);
  KernelEntry& entry = state.kernels[hostFun];
  entry.name = deviceName;
  entry.binary = binary_of(fatCubinHandle);
}

void RT(__cudaRegisterVar)(void** fatCubinHandle, char* hostVar, char*, const char* deviceName, int,
                           size_t size, int, int) {
  Registry& state = registry();
  std::unique_lock<std::shared_mutex> lock(state.mutex);
  VariableEntry& entry = state.variables[hostVar];
  entry.name = deviceName;
  entry.bytes = size;
  entry.binary = binary_of(fatCubinHandle);
}

void RT(__cudaRegisterManagedVar)(void** fatCubinHandle, void** hostVarPtrAddress, char*,
                                  const char* deviceName, int, size_t size, int, int) {
  Registry& state = registry();
  std::unique_lock<std::shared_mutex> lock(state.mutex);
  VariableEntry& entry = state.variables[hostVarPtrAddress];
  entry.name = deviceName;
  entry.bytes = size;
  entry.managed_pointer = hostVarPtrAddress;
  entry.binary = binary_of(fatCubinHandle);
  entry.binary->managed.push_back(&entry);
}

char RT(__cudaInitModule)(void** fatCubinHandle) {
  if (simrt::need_context() != cudaSuccess) return 0;
  Registry& state = registry();
  std::unique_lock<std::shared_mutex> lock(state.mutex);
  bool complete = true;
  for (VariableEntry* variable : binary_of(fatCubinHandle)->managed) {
    complete = locate(variable) == cudaSuccess && complete;
  }
  return complete ? 1 : 0;
}

cudaError_t RT(cudaGetSymbolAddress)(void** devPtr, const void* symbol) {
  SIMRT_CONTEXT();
  CUdeviceptr address = 0;
  size_t bytes = 0;
  cudaError_t error = simrt::find_symbol(symbol, &address, &bytes);
  *devPtr = reinterpret_cast<void*>(address);
  return simrt::fail(error);
}

cudaError_t RT(cudaGetSymbolSize)(size_t* size, const void* symbol) {
  SIMRT_CONTEXT();
  CUdeviceptr address = 0;
  return simrt::fail(simrt::find_symbol(symbol, &address, size));
}
