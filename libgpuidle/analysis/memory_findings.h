// SPDX-License-Identifier: Apache-2.0
//
// Findings on the batch size, from how much of a device's memory was in use while it was idle. They
// explain idle time that other findings count, so they claim none. Feeds the findings.
#pragma once

#include <vector>

#include "libgpuidle/analysis/device_memory.h"
#include "libgpuidle/analysis/findings.h"

namespace gpuidle::analysis {

/// Appends what applies to `found->told`, which must hold all other findings. Context: tool.
void add_memory_findings(const Idleness& idleness, const std::vector<MemoryUse>& memory,
                         const Thresholds& thresholds, Findings* found);

}  // namespace gpuidle::analysis
