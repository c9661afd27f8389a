// SPDX-License-Identifier: Apache-2.0
//
// Which synchronising calls wait for everything that was queued, on all streams of a device.
#pragma once

#include <string_view>
#include <vector>

#include "libgpuidle/model/tables.h"

namespace gpuidle::analysis {

/// By ApiId: true for calls that return only when the whole device (or context) is done.
inline std::vector<bool> device_wide_synchronisations(const model::Tables& tables) {
  std::vector<bool> is_device_wide;
  for (const model::Api& api : tables.apis()) {
    const std::string_view name = tables.string(api.name);
    is_device_wide.push_back(name == "cudaDeviceSynchronize" || name == "cudaThreadSynchronize" ||
                             name == "cuCtxSynchronize" || name == "hipDeviceSynchronize");
  }
  return is_device_wide;
}

}  // namespace gpuidle::analysis
