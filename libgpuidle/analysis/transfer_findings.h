// SPDX-License-Identifier: Apache-2.0
//
// The rules for copies and communication that no kernel hid: which of them cost something that can
// be saved, and why. Fed with the exposed groups of the analysis; feeds the findings.
#pragma once

#include <vector>

#include "libgpuidle/analysis/idleness.h"

namespace gpuidle::analysis {

struct TransferCost {
  const ExposedGroup* group;  ///< points into the Idleness it was made from
  Cause cause;
  Grade grade;
};

/// The groups that a cause explains, in the order of Idleness::exposed. Context: tool.
std::vector<TransferCost> transfer_costs(const Idleness& idleness);

}  // namespace gpuidle::analysis
