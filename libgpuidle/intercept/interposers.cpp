// SPDX-License-Identifier: Apache-2.0
//
// The exported CUDA functions that stand in front of the real ones in a preloaded process, expanded
// from cuda_functions.def. Each forwards exactly once and returns what it got; in between it tells
// the sink, if there is one, that this thread entered and left.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <type_traits>

#include "libgpuidle/intercept/host_call_sink.h"
#include "libgpuidle/intercept/interposed_functions.h"
#include "libgpuidle/model/cuda_api.h"

// cuda.h makes these names mean their latest variant; here each symbol means itself.
#undef cuGetProcAddress
#undef cuMemPrefetchAsync
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync

// Deprecated functions are still called by programs, and ours must be declared like them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define GPUIDLE_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuidle::intercept {

std::atomic<const HostCallSink*> g_host_call_sink{nullptr};

namespace {

// Every symbol's place in g_real: PAIR rows stand for two symbols.
#define GPUIDLE_RUNTIME_PAIR(symbol, suffix, parameters, arguments) \
  GPUIDLE_RUNTIME_FUNCTION(symbol, parameters, arguments)           \
  GPUIDLE_RUNTIME_FUNCTION(symbol##_##suffix, parameters, arguments)
#define GPUIDLE_DRIVER_PAIR(symbol, suffix, since, suffix_since, before, parameters, arguments) \
  GPUIDLE_DRIVER_FUNCTION(symbol, since, before, parameters, arguments)                         \
  GPUIDLE_DRIVER_FUNCTION(symbol##_##suffix, suffix_since, before, parameters, arguments)

#define GPUIDLE_RUNTIME_FUNCTION(symbol, parameters, arguments) at_##symbol,
#define GPUIDLE_DRIVER_ENTRY(symbol, since, before) at_##symbol,
#define GPUIDLE_DRIVER_FUNCTION(symbol, since, before, parameters, arguments) at_##symbol,
enum Place : std::size_t {
#include "libgpuidle/intercept/cuda_functions.def"
};
#undef GPUIDLE_RUNTIME_FUNCTION
#undef GPUIDLE_DRIVER_ENTRY
#undef GPUIDLE_DRIVER_FUNCTION

#define GPUIDLE_RUNTIME_FUNCTION(symbol, parameters, arguments) \
  {#symbol, CudaLibrary::runtime, &g_bindings[at_##symbol]},
#define GPUIDLE_DRIVER_ENTRY(symbol, since, before) {#symbol, CudaLibrary::driver, nullptr},
#define GPUIDLE_DRIVER_FUNCTION(symbol, since, before, parameters, arguments) \
  {#symbol, CudaLibrary::driver, nullptr},
RealSymbol::Bindings g_bindings[at_cuInit];  // the runtime's functions come first
RealSymbol g_real[] = {
#include "libgpuidle/intercept/cuda_functions.def"
};
#undef GPUIDLE_RUNTIME_FUNCTION
#undef GPUIDLE_DRIVER_ENTRY
#undef GPUIDLE_DRIVER_FUNCTION

// What a caller is told whose function does not exist: the library's own words for it.
template <typename Result>
constexpr Result kNoSuchFunction{};
template <>
constexpr cudaError_t kNoSuchFunction<cudaError_t> = cudaErrorSharedObjectSymbolNotFound;
template <>
constexpr CUresult kNoSuchFunction<CUresult> = CUDA_ERROR_NOT_FOUND;

// The call's row in model::kCudaApis, found while compiling.
constexpr std::uint16_t row_of(std::string_view symbol) {
  return model::cuda_api_row(model::without_variant(symbol));
}

// `call` is the one call of the real function.
template <std::uint16_t kRow, typename Call>
inline auto record(Call call) {
  const HostCallSink* const sink = g_host_call_sink.load(std::memory_order_acquire);
  if (sink == nullptr) return call();
  const int errno_before = errno;
  sink->enter(kRow, model::kCudaApis[kRow].role);
  errno = errno_before;
  const auto result = call();
  const int errno_after = errno;
  sink->exit(static_cast<std::int32_t>(result));
  errno = errno_after;
  return result;
}

template <typename Function>
inline Function* real_function(Place place, const void* caller) {
  return reinterpret_cast<Function*>(g_real[place].find(caller));
}

// The process whose CUDA was reported to the session; another one after a fork.
std::atomic<pid_t> g_initialised_process{0};

void note_cuda_init(CUresult result) {
  if (result != CUDA_SUCCESS) return;
  const pid_t self = getpid();
  if (g_initialised_process.exchange(self, std::memory_order_acq_rel) == self) return;
  const int saved_errno = errno;
  on_cuda_init(result);
  errno = saved_errno;
}

}  // namespace
}  // namespace gpuidle::intercept

#define GPUIDLE_WRAPPER(result, symbol, parameters, arguments)                                     \
  static_assert(gpuidle::intercept::row_of(#symbol) != gpuidle::model::kNoCudaApi,                 \
                #symbol " has no row in model/cuda_api.def");                                      \
  GPUIDLE_EXPORT result symbol parameters {                                                        \
    using namespace gpuidle::intercept;                                                            \
    auto* const real = real_function<result parameters>(at_##symbol, __builtin_return_address(0)); \
    if (real == nullptr) return kNoSuchFunction<result>;                                           \
    return record<row_of(#symbol)>([&] { return real arguments; });                                \
  }
#define GPUIDLE_RUNTIME_FUNCTION(symbol, parameters, arguments) \
  GPUIDLE_WRAPPER(cudaError_t, symbol, parameters, arguments)
#define GPUIDLE_DRIVER_ENTRY(symbol, since, before)
#define GPUIDLE_DRIVER_FUNCTION(symbol, since, before, parameters, arguments) \
  GPUIDLE_WRAPPER(CUresult, symbol, parameters, arguments)
#include "libgpuidle/intercept/cuda_functions.def"
#undef GPUIDLE_RUNTIME_FUNCTION
#undef GPUIDLE_DRIVER_ENTRY
#undef GPUIDLE_DRIVER_FUNCTION

GPUIDLE_EXPORT CUresult cuInit(unsigned int flags) {
  using namespace gpuidle::intercept;
  auto* const real = real_function<CUresult(unsigned int)>(at_cuInit, __builtin_return_address(0));
  if (real == nullptr) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = real(flags);
  note_cuda_init(result);
  return result;
}

GPUIDLE_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                         cuuint64_t flags) {
  using namespace gpuidle::intercept;
  auto* const real = real_function<CUresult(const char*, void**, int, cuuint64_t)>(
      at_cuGetProcAddress, __builtin_return_address(0));
  if (real == nullptr) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = real(symbol, function, version, flags);
  if (result == CUDA_SUCCESS && *function != nullptr) {
    *function = wrapper_for_entry_point(symbol, version, flags, *function);
  }
  return result;
}

GPUIDLE_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                            cuuint64_t flags,
                                            CUdriverProcAddressQueryResult* status) {
  using namespace gpuidle::intercept;
  auto* const real = real_function<CUresult(const char*, void**, int, cuuint64_t,
                                            CUdriverProcAddressQueryResult*)>(
      at_cuGetProcAddress_v2, __builtin_return_address(0));
  if (real == nullptr) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = real(symbol, function, version, flags, status);
  if (result == CUDA_SUCCESS && *function != nullptr) {
    *function = wrapper_for_entry_point(symbol, version, flags, *function);
  }
  return result;
}

namespace gpuidle::intercept {
namespace {

constexpr bool is_per_thread(std::string_view symbol) {
  const std::string_view end = symbol.substr(symbol.size() < 5 ? 0 : symbol.size() - 5);
  return end == "_ptsz" || end == "_ptds";
}

template <std::size_t kSize>
using Size = std::integral_constant<std::size_t, kSize>;

// dlsym may be asked before any initialiser has run, so everything here is computed while
// compiling; the integral constants see to it.
#define GPUIDLE_RUNTIME_FUNCTION(symbol, parameters, arguments)
#define GPUIDLE_DRIVER_ENTRY(symbol, since, before)                \
  {{#symbol, sizeof(#symbol) - 1},                                 \
   {#symbol, Size<model::without_variant(#symbol).size()>::value}, \
   since,                                                          \
   before,                                                         \
   std::bool_constant<is_per_thread(#symbol)>::value,              \
   reinterpret_cast<void*>(&::symbol),                             \
   &g_real[at_##symbol]},
#define GPUIDLE_DRIVER_FUNCTION(symbol, since, before, parameters, arguments) \
  GPUIDLE_DRIVER_ENTRY(symbol, since, before)
const DriverFunction kDriverFunctions[] = {
#include "libgpuidle/intercept/cuda_functions.def"
};

}  // namespace

DriverFunctions driver_functions() noexcept {
  return {std::begin(kDriverFunctions), std::end(kDriverFunctions)};
}

}  // namespace gpuidle::intercept
