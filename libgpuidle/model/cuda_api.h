// SPDX-License-Identifier: Apache-2.0
//
// Which part a CUDA or HIP call plays, by its name: the lookup over cuda_api.def. Asked by the
// recorder for the names CUPTI gives and by importers for the names in foreign files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "libgpuidle/model/records.h"

namespace gpuidle::model {

struct CudaApi {
  std::string_view name;
  ApiRole role;
};

/// The rows of cuda_api.def, in its order; a recorded call names its row.
inline constexpr CudaApi kCudaApis[] = {
#define GPUIDLE_CUDA_API(domain, role, name) {#name, ApiRole::role},
#include "libgpuidle/model/cuda_api.def"
#undef GPUIDLE_CUDA_API
};
inline constexpr std::uint16_t kNoCudaApi = 0xffff;

/// Row of a call by its name without variant suffixes, kNoCudaApi if it is not listed. Linear: for
/// compile time and start-up. Context: control.
constexpr std::uint16_t cuda_api_row(std::string_view name) {
  for (std::size_t row = 0; row < std::size(kCudaApis); ++row) {
    if (kCudaApis[row].name == name) return static_cast<std::uint16_t>(row);
  }
  return kNoCudaApi;
}

/// The call without its variant suffixes (_v2, _v7000, _ptsz, _ptds, in any number and order),
/// e.g. "cudaMemcpyAsync" for "cudaMemcpyAsync_ptsz_v7000". A view into `call_name`.
/// Context: hook, compile time.
constexpr std::string_view without_variant(std::string_view call_name) noexcept {
  const auto remove = [&call_name](std::string_view suffix) {
    if (call_name.size() <= suffix.size()) return false;
    if (call_name.substr(call_name.size() - suffix.size()) != suffix) return false;
    call_name.remove_suffix(suffix.size());
    return true;
  };
  const auto remove_version = [&call_name] {
    std::size_t length = call_name.size();
    while (length > 0 && call_name[length - 1] >= '0' && call_name[length - 1] <= '9') --length;
    if (length == call_name.size() || length < 3) return false;
    if (call_name.substr(length - 2, 2) != "_v") return false;
    call_name.remove_suffix(call_name.size() - (length - 2));
    return true;
  };
  while (remove("_ptsz") || remove("_ptds") || remove_version()) {
  }
  return call_name;
}

/// The role of a call, variant suffixes allowed; ApiRole::other for what cuda_api.def does not
/// list. A HIP call has the role of its CUDA counterpart. No heap, no lock; 20 to 35 ns.
/// Context: hook.
ApiRole role_of(std::string_view call_name) noexcept;

}  // namespace gpuidle::model
