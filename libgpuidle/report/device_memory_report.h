// SPDX-License-Identifier: Apache-2.0
//
// The part of the reports, text and JSON, on the memory of each device. Used by both.
#pragma once

#include <string>

#include "libgpuidle/report/json_writer.h"
#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

/// Empty if the recording tells of no allocation. Context: tool.
std::string text_device_memory(const ReportInput& input, const Style& style);

/// The member "device_memory" of the report, an array.
void write_device_memory(const ReportInput& input, JsonWriter* json);

}  // namespace gpuidle::report
