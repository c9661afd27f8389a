// SPDX-License-Identifier: Apache-2.0
//
// Which libcupti a process should have, and which ones it must not: search order, versions, and the
// table of releases that are known to harm their process. Knows no CUPTI header. Read by
// cupti_api.cpp in the traced process and by `gpuidle doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuidle::cupti {

/// The CUDA libraries that are mapped already; "" = none.
struct MappedCuda {
  std::string cupti;
  std::string cudart;
};

/// Of this process. Takes the loader's lock. Context: control.
MappedCuda mapped_cuda();

/// CUDA major of the driver that is mapped, as it reports it; 0 = not known. Context: control.
int mapped_driver_major();

/// The libraries to try, in order. `requested_path` (GPUIDLE_CUPTI_LIBRARY) is the only one if not
/// empty. A mapped CUPTI is the only one too: opening a second one beside it would decide which
/// file its first user gets. Else the neighbours of the mapped CUDA runtime, then the loader's
/// path, then the toolkit's usual place; of each first the runtime's CUDA major, then the driver's,
/// then older ones. `driver_major` is the CUDA major of the driver, 0 = not known; newer libraries
/// than that are not tried, since they cannot start.
std::vector<std::string> cupti_candidates(const std::string& requested_path,
                                          const MappedCuda& mapped, int driver_major);

/// CUDA major of what cuptiGetVersion() returned, the lowest where releases share a number; 0 =
/// older than CUDA 11.
int cupti_major(std::uint32_t version);

/// "12.4", "13.0.1", "11.8 to 12.1" where releases share a number.
std::string cupti_version_text(std::uint32_t version);

/// Why this version must not be used with a driver of CUDA major `driver_major` (0 = not known), in
/// half a sentence that says what to do; "" = it may be used.
std::string why_not_cupti(std::uint32_t version, int driver_major);

}  // namespace gpuidle::cupti
