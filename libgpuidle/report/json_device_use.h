// SPDX-License-Identifier: Apache-2.0
//
// The part of the JSON report on how full a device was while it was busy. Used by the report.
#pragma once

#include "libgpuidle/report/json_writer.h"
#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

/// Writes "fill" and "idle_windows" into the current object; nothing if nothing was measured.
/// Context: tool.
void write_device_use(const ReportInput& input, const analysis::DeviceIdleness& device,
                      JsonWriter* json);

}  // namespace gpuidle::report
