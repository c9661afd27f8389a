// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into intercept_test together with libgpuidle/intercept: stands for the session, counts
// what the wrappers tell and sets errno wherever it may, to see that they put it back.
#include "tests/process/intercept_probe.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "libgpuidle/intercept/host_call_sink.h"
#include "libgpuidle/model/cuda_api.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using gpuidle::intercept::HostCallSink;

std::array<std::atomic<int>, std::size(gpuidle::model::kCudaApis)> g_enters{};
std::atomic<int> g_initialisations{0};
thread_local int t_depth = 0;
thread_local int t_last_result = -1;

constexpr HostCallSink kSink = {[](std::uint16_t api, gpuidle::model::ApiRole) noexcept {
                                  ++g_enters[api];
                                  ++t_depth;
                                  errno = EDOM;
                                },
                                [](std::int32_t result) noexcept {
                                  --t_depth;
                                  t_last_result = result;
                                  errno = EDOM;
                                }};

}  // namespace

namespace gpuidle::intercept {

void on_cuda_init(int) noexcept {
  ++g_initialisations;
  errno = EDOM;
}

}  // namespace gpuidle::intercept

EXPORT int probe_enters(const char* api) {
  const std::uint16_t row = gpuidle::model::cuda_api_row(api);
  return row == gpuidle::model::kNoCudaApi ? -1 : g_enters[row].load();
}
EXPORT int probe_depth() { return t_depth; }
EXPORT int probe_last_result() { return t_last_result; }
EXPORT int probe_initialisations() { return g_initialisations; }
EXPORT void probe_listen(int listens) {
  gpuidle::intercept::g_host_call_sink.store(listens != 0 ? &kSink : nullptr);
}
