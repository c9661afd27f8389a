// SPDX-License-Identifier: Apache-2.0
//
// Small programs with a known reason to leave a device idle, as recordings with exact times, and
// what a report must say of each. The tests of the scenarios check the figures; the suite checks
// that exactly the expected causes are told.
#pragma once

#include <string_view>
#include <vector>

#include "libgpuidle/analysis/findings.h"
#include "tests/unit/ledger_recording.h"

namespace gpuidle::tests {

struct Scenario {
  std::string_view name;
  void (*fill)(LedgerRecording* recording);
  std::vector<analysis::Cause> told;  ///< all causes that must be told, and no other may be
};

/// All scenarios, silent controls included.
const std::vector<Scenario>& scenarios();

struct Told {
  analysis::Idleness found;
  analysis::Findings findings;

  /// nullptr if the cause is not told.
  const analysis::Finding* find(analysis::Cause cause) const;
};

/// The findings, those on memory included.
analysis::Findings causes_of(const LedgerRecording& recording, const analysis::Idleness& found);

/// Analyses a scenario, checks that each ledger adds up to its wall time, that the gap groups add
/// up to the idle time, and that exactly the expected causes are told.
Told tell(LedgerRecording* recording, std::string_view scenario);

// Names frames as they are found in programs that use PyTorch.
model::StackId inline_loader_stack(LedgerRecording* recording);
model::StackId worker_loader_stack(LedgerRecording* recording);
model::StackId checkpoint_stack(LedgerRecording* recording);

}  // namespace gpuidle::tests
