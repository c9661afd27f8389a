// SPDX-License-Identifier: Apache-2.0
//
// The report for people: what was recorded and how far to trust it, a verdict in words, the ledger
// of each device, and where its idle time comes from. Fed with the result of the analysis.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libgpuidle/analysis/device_memory.h"
#include "libgpuidle/analysis/device_use.h"
#include "libgpuidle/analysis/findings.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/analysis/steps.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/report/places.h"
#include "libgpuidle/report/terminal.h"

namespace gpuidle::report {

/// What a report is made from. All of it must outlive the call.
struct ReportInput {
  const model::Recording& recording;
  const analysis::Idleness& found;
  const analysis::Findings& findings;
  /// found.groups, joined by line: see joined_by_line().
  const std::vector<analysis::GapGroup>& origins;
  /// What went wrong while the records were read; ok if nothing did.
  const base::Status& read_status;
  std::size_t top = 5;                         ///< findings, places or gaps that are shown
  const analysis::DeviceUse* use = nullptr;    ///< nullptr: how full the devices were is not told
  const analysis::StepTimes* steps = nullptr;  ///< nullptr: there are none
  const std::vector<analysis::MemoryUse>* memory = nullptr;  ///< nullptr: not measured
};

/// True if the recording tells nothing about any device: neither records nor proof.
bool has_no_gpu_records(const analysis::Idleness& found);
/// True if something is missing from the recording: losses, a read error, or an abrupt end.
bool is_incomplete(const ReportInput& input);

/// `gpuidle report`: at most 80 columns, ends with a newline. Context: tool.
std::string text_report(const ReportInput& input, Places& places, const Style& style);
/// `gpuidle gaps`.
std::string text_gaps(const ReportInput& input, Places& places, const Style& style);

}  // namespace gpuidle::report
