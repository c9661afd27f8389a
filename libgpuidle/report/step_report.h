// SPDX-License-Identifier: Apache-2.0
//
// The program's steps for people and for programs: how long, how even, and what makes the slow ones
// slow. Part of the reports.
#pragma once

#include <string>

#include "libgpuidle/report/json_writer.h"
#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

/// With its heading; "" if there are no steps. Context: tool.
std::string text_steps(const ReportInput& input, const Style& style);

/// Writes the field "steps", null if there are none, into the current object. Context: tool.
void write_steps(const ReportInput& input, JsonWriter* json);

}  // namespace gpuidle::report
