// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/communication.h"

namespace gpuidle::analysis {

bool is_communication_kernel(std::string_view name) {
  // Names before NCCL 2.19 have the collective between prefix and "Kernel".
  for (const std::string_view prefix : {"nccl", "rccl"}) {
    const std::size_t at = name.find(prefix);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = name.substr(at + prefix.size());
    if (rest.find("Kernel") != std::string_view::npos ||
        rest.find("_kernel") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace gpuidle::analysis
