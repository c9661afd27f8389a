// SPDX-License-Identifier: Apache-2.0
//
// Which part a CUDA or HIP call plays, by its name: the lookup over cuda_api.def. Asked by the
// recorder for the names CUPTI gives and by importers for the names in foreign files.
#pragma once

#include <string_view>

#include "libgpuidle/model/records.h"

namespace gpuidle::model {

/// The call without its variant suffixes (_v2, _v7000, _ptsz, _ptds, in any number and order),
/// e.g. "cudaMemcpyAsync" for "cudaMemcpyAsync_ptsz_v7000". A view into `call_name`.
/// Context: hook.
std::string_view without_variant(std::string_view call_name) noexcept;

/// The role of a call, variant suffixes allowed; ApiRole::other for what cuda_api.def does not
/// list. A HIP call has the role of its CUDA counterpart. No heap, no lock; 20 to 35 ns.
/// Context: hook.
ApiRole role_of(std::string_view call_name) noexcept;

}  // namespace gpuidle::model
