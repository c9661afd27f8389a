// SPDX-License-Identifier: Apache-2.0
//
// Findings about the job around its device work: start-up, lingering, devices that were reserved
// and not used, faults of set-up. Only our own recorder sees a process from start to end, so most
// of them are never made from another tool's recording. Feeds the findings.
#pragma once

#include <vector>

#include "libgpuidle/analysis/findings.h"

namespace gpuidle::analysis {

/// Appends what applies, in no particular order. Context: tool.
void add_job_findings(const model::Recording& recording, const Idleness& idleness,
                      const Thresholds& thresholds, std::vector<Finding>* findings);

}  // namespace gpuidle::analysis
