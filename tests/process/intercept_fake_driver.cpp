// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 of a few functions for intercept_test. Each says by its own counter that the call
// arrived, and how often. Written without cuda.h: its macros would rename the functions.
#include <cerrno>
#include <cstring>
#include <map>
#include <string>

namespace {

std::map<std::string, int>& calls() {
  static std::map<std::string, int> counts;
  return counts;
}
int g_next_result = 0;

int arrive(const char* symbol) {
  ++calls()[symbol];
  const int result = g_next_result;
  g_next_result = 0;
  errno = ENOTTY;  // what a caller must find afterwards
  return result;
}

constexpr int kPerThread = 2;
constexpr int kNotFound = 500;

}  // namespace

extern "C" {

int fake_calls(const char* symbol) { return calls()[symbol]; }
void fake_next_result(int result) { g_next_result = result; }

int cuInit(unsigned int) { return arrive("cuInit"); }
int cuCtxSynchronize() { return arrive("cuCtxSynchronize"); }
int cuCtxSynchronize_v2(void*) { return arrive("cuCtxSynchronize_v2"); }
int cuStreamSynchronize(void*) { return arrive("cuStreamSynchronize"); }
int cuStreamSynchronize_ptsz(void*) { return arrive("cuStreamSynchronize_ptsz"); }
int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  *address = bytes;
  return arrive("cuMemAlloc_v2");
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return arrive("cuDriverGetVersion");
}

int cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long long flags,
                        int* status) {
  const bool per_thread = (flags & kPerThread) != 0;
  const std::string name = symbol;
  *function = nullptr;
  if (name == "cuInit") *function = reinterpret_cast<void*>(&cuInit);
  if (name == "cuMemAlloc") *function = reinterpret_cast<void*>(&cuMemAlloc_v2);
  if (name == "cuDriverGetVersion") *function = reinterpret_cast<void*>(&cuDriverGetVersion);
  if (name == "cuGetProcAddress") *function = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  if (name == "cuCtxSynchronize") {
    *function = version >= 13000 ? reinterpret_cast<void*>(&cuCtxSynchronize_v2)
                                 : reinterpret_cast<void*>(&cuCtxSynchronize);
  }
  if (name == "cuStreamSynchronize") {
    *function = per_thread ? reinterpret_cast<void*>(&cuStreamSynchronize_ptsz)
                           : reinterpret_cast<void*>(&cuStreamSynchronize);
  }
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? kNotFound : arrive("cuGetProcAddress_v2");
}

}  // extern "C"
