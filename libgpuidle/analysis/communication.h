// SPDX-License-Identifier: Apache-2.0
//
// Which kernels move data between devices instead of computing. A collective that waits for its
// peers keeps a device busy without progress, so the ledger keeps it apart. Feeds the ledger.
#pragma once

#include <string_view>

namespace gpuidle::analysis {

/// True for the collective and point-to-point kernels of NCCL and RCCL, by (mangled) name:
/// ncclDevKernel_*, ncclSymkDevKernel_*, ncclKernel_*, the older nccl<Collective>...Kernel_*, and
/// the same with "rccl".
bool is_communication_kernel(std::string_view name);

}  // namespace gpuidle::analysis
