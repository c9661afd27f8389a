// SPDX-License-Identifier: Apache-2.0
//
// The report for programs: the same figures as the text, raw, with the unit in each key. One
// document per command, first keys "schema" and "version"; additions keep the version.
#pragma once

#include <string>

#include "libgpuidle/report/json_writer.h"
#include "libgpuidle/report/places.h"
#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

/// `gpuidle report --json`, schema "gpuidle.report". All groups, whatever ReportInput::top.
/// Context: tool.
std::string json_report(const ReportInput& input, Places& places);
/// `gpuidle gaps --json`, schema "gpuidle.gaps". At most ReportInput::top gaps.
std::string json_gaps(const ReportInput& input, Places& places);

/// Writes the fields "recording", "losses" and "warnings" into the current object; every command
/// that reads a recording has them.
void write_recording(const model::RecordingInfo& info, JsonWriter* json);

}  // namespace gpuidle::report
