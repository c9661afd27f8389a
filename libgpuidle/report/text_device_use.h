// SPDX-License-Identifier: Apache-2.0
//
// The part of the text report on how full each device was while it was busy, and which idle windows
// were long enough for other work. Used by the report.
#pragma once

#include <string>

#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

/// Empty if nothing was measured. Context: tool.
std::string text_device_use(const ReportInput& input, const Style& style);

/// "registers and shared memory": what keeps further blocks off a multiprocessor; empty if nothing
/// is known.
std::string limiters_of(const analysis::Occupancy& occupancy);

}  // namespace gpuidle::report
