// SPDX-License-Identifier: Apache-2.0
//
// The interposed functions inside a real process: ctest preloads the probe and a neighbour (see
// CMakeLists.txt) and puts fake CUDA libraries where the loader looks.
#define CATCH_CONFIG_MAIN
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/process/intercept_probe.h"

// Of the fake driver's functions only this one is missing.
extern "C" int cuMemFree_v2(unsigned long long address) __attribute__((weak));

namespace {

constexpr int kNotFound = 500;  // CUDA_ERROR_NOT_FOUND

template <typename Function>
Function* symbol(void* handle, const char* name) {
  return reinterpret_cast<Function*>(dlsym(handle, name));
}

const char* library_of(void* function) {
  static Dl_info info;
  if (function == nullptr || dladdr(function, &info) == 0) return "nowhere";
  return std::strrchr(info.dli_fname, '/') != nullptr ? std::strrchr(info.dli_fname, '/') + 1
                                                      : info.dli_fname;
}

std::string library_of_symbol(void* handle, const char* name) {
  return library_of(dlsym(handle, name));
}

// The fake driver, opened as the CUDA runtime opens the real one.
struct Driver {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*calls)(const char*) = symbol<int(const char*)>(handle, "fake_calls");
  void (*next_result)(int) = symbol<void(int)>(handle, "fake_next_result");
  int (*entry_point)(const char*, void**, int, unsigned long long, int*) =
      symbol<int(const char*, void**, int, unsigned long long, int*)>(handle,
                                                                      "cuGetProcAddress_v2");

  void* ask(const char* name, int version, unsigned long long flags = 0) const {
    void* function = nullptr;
    int status = -1;
    entry_point(name, &function, version, flags, &status);
    return function;
  }
};

constexpr char kProbe[] = "libintercept_probe.so";
constexpr char kDriver[] = "libcuda.so.1";

// Runs first: no other test has opened the driver yet.
TEST_CASE("without a driver its functions are not there, as without us", "[intercept]") {
  REQUIRE(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  CHECK(dlsym(RTLD_DEFAULT, "cuInit") == nullptr);
  CHECK(dlerror() != nullptr);
  CHECK(dlsym(dlopen(nullptr, RTLD_NOW), "cuInit") == nullptr);
}

TEST_CASE("a call whose real function does not exist gets CUDA's own error", "[intercept]") {
  REQUIRE(cuMemFree_v2 != nullptr);
  CHECK(cuMemFree_v2(1) == kNotFound);
  const Driver driver;
  CHECK(cuMemFree_v2(1) == kNotFound);
}

TEST_CASE("dlsym on the driver gives our function for a listed name only", "[intercept]") {
  const Driver driver;
  CHECK(library_of_symbol(driver.handle, "cuInit") == kProbe);
  CHECK(library_of_symbol(driver.handle, "cuMemAlloc_v2") == kProbe);
  CHECK(library_of_symbol(driver.handle, "cuDriverGetVersion") == kDriver);
  CHECK(dlsym(driver.handle, "cuMemFree_v2") == nullptr);
  CHECK(dlsym(driver.handle, "cuckoo") == nullptr);
}

TEST_CASE("a library that has a function of the same name keeps its own", "[intercept]") {
  const Driver driver;
  REQUIRE(library_of_symbol(driver.handle, "cuInit") == kProbe);
  void* const other = dlopen("libother_cuda.so", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(other != nullptr);
  CHECK(library_of_symbol(other, "cuInit") == "libother_cuda.so");
}

TEST_CASE("cuGetProcAddress gives the wrapper of exactly the variant asked for", "[intercept]") {
  const Driver driver;
  const auto calls_v1 = reinterpret_cast<int (*)()>(driver.ask("cuCtxSynchronize", 12080));
  const auto calls_v2 = reinterpret_cast<int (*)(void*)>(driver.ask("cuCtxSynchronize", 13000));
  CHECK(std::string(library_of(reinterpret_cast<void*>(calls_v1))) == kProbe);
  CHECK(std::string(library_of(reinterpret_cast<void*>(calls_v2))) == kProbe);
  const int before_v1 = driver.calls("cuCtxSynchronize");
  const int before_v2 = driver.calls("cuCtxSynchronize_v2");
  CHECK(calls_v1() == 0);
  CHECK(driver.calls("cuCtxSynchronize") == before_v1 + 1);
  CHECK(calls_v2(nullptr) == 0);
  CHECK(driver.calls("cuCtxSynchronize_v2") == before_v2 + 1);
}

TEST_CASE("cuGetProcAddress tells per-thread streams apart", "[intercept]") {
  const Driver driver;
  const auto legacy = reinterpret_cast<int (*)(void*)>(driver.ask("cuStreamSynchronize", 7000, 1));
  const auto per_thread =
      reinterpret_cast<int (*)(void*)>(driver.ask("cuStreamSynchronize", 7000, 2));
  CHECK(std::string(library_of(reinterpret_cast<void*>(per_thread))) == kProbe);
  CHECK(legacy != per_thread);
  CHECK(per_thread(nullptr) == 0);
  CHECK(driver.calls("cuStreamSynchronize_ptsz") == 1);
  CHECK(driver.calls("cuStreamSynchronize") == 0);
  // One variant serves both modes of a function without a stream.
  CHECK(std::string(library_of(driver.ask("cuMemAlloc", 3020, 2))) == kProbe);
}

TEST_CASE("what we do not know exactly is passed through", "[intercept]") {
  const Driver driver;
  CHECK(std::string(library_of(driver.ask("cuCtxSynchronize", 99990))) == kDriver);
  CHECK(std::string(library_of(driver.ask("cuStreamSynchronize", 6000, 2))) == kDriver);
  CHECK(std::string(library_of(driver.ask("cuMemAlloc", 2000))) == kDriver);
  CHECK(std::string(library_of(driver.ask("cuDriverGetVersion", 12000))) == kDriver);
  CHECK(driver.ask("cuNoSuchThing", 12000) == nullptr);
}

TEST_CASE("cuGetProcAddress asked for itself gives ours, so that nobody gets around it",
          "[intercept]") {
  const Driver driver;
  CHECK(driver.ask("cuGetProcAddress", 12000) == reinterpret_cast<void*>(driver.entry_point));
}

TEST_CASE("a call arrives once, its result is untouched, and the sink sees both ends",
          "[intercept]") {
  const Driver driver;
  auto* const allocate =
      symbol<int(unsigned long long*, std::size_t)>(driver.handle, "cuMemAlloc_v2");
  const int arrived = driver.calls("cuMemAlloc_v2");
  const int entered = probe_enters("cuMemAlloc");
  unsigned long long address = 0;

  SECTION("with nobody listening") {
    errno = 0;
    driver.next_result(2);
    CHECK(allocate(&address, 77) == 2);
    CHECK(errno == ENOTTY);
    CHECK(probe_enters("cuMemAlloc") == entered);
  }
  SECTION("with the sink in") {
    probe_listen(1);
    driver.next_result(700);
    errno = 0;
    const int result = allocate(&address, 77);
    const int errno_after = errno;
    probe_listen(0);
    CHECK(result == 700);
    CHECK(errno_after == ENOTTY);  // the real function's, not the sink's
    CHECK(probe_enters("cuMemAlloc") == entered + 1);
    CHECK(probe_last_result() == 700);
    CHECK(probe_depth() == 0);
  }
  CHECK(driver.calls("cuMemAlloc_v2") == arrived + 1);
  CHECK(address == 77);
}

TEST_CASE("the first cuInit that succeeds is told once per process", "[intercept]") {
  const Driver driver;
  auto* const init = symbol<int(unsigned)>(driver.handle, "cuInit");
  driver.next_result(100);
  CHECK(init(0) == 100);
  CHECK(probe_initialisations() == 0);
  errno = 0;
  CHECK(init(0) == 0);
  CHECK(errno == ENOTTY);
  CHECK(probe_initialisations() == 1);
  // Through the other door as well.
  CHECK(reinterpret_cast<int (*)(unsigned)>(driver.ask("cuInit", 2000))(0) == 0);
  CHECK(probe_initialisations() == 1);

  const pid_t child = fork();
  if (child == 0) _exit(init(0) == 0 ? probe_initialisations() : 99);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
}

TEST_CASE("each module reaches the runtime it is linked with", "[intercept]") {
  void* const user_a = dlopen("libintercept_user_a.so", RTLD_NOW | RTLD_LOCAL);
  void* const user_b = dlopen("libintercept_user_b.so", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(user_a != nullptr);
  REQUIRE(user_b != nullptr);
  auto* const ask_a = symbol<int()>(user_a, "ask_runtime");
  auto* const ask_b = symbol<int()>(user_b, "ask_runtime");
  probe_listen(1);
  const int before = probe_enters("cudaDeviceSynchronize");
  for (int i = 0; i < 3; ++i) {
    CHECK(ask_b() == 1002);
    CHECK(ask_a() == 1001);
  }
  CHECK(probe_enters("cudaDeviceSynchronize") == before + 6);
  probe_listen(0);
}

TEST_CASE("another interposer finds its next function, not itself", "[intercept]") {
  CHECK(library_of_symbol(RTLD_DEFAULT, "getppid") == "libintercept_neighbour.so");
  std::ifstream status("/proc/self/status");
  std::string word;
  pid_t parent = 0;
  while (status >> word && word != "PPid:") {
  }
  status >> parent;
  CHECK(getppid() == parent);
}

}  // namespace
