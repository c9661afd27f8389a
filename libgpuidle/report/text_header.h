// SPDX-License-Identifier: Apache-2.0
//
// The head of every text report: what was recorded, by which means, how it ended, and what is
// missing, so that nobody reads a number before what could change it. Fed and used by the text
// reports.
#pragma once

#include <string>

#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

std::string text_header(const ReportInput& input, const Style& style);

/// One paragraph per device: how idle, and in which of the three ways. Used by the report's
/// verdict.
std::string text_verdict(const ReportInput& input, Places& places);

/// "device 1 (NVIDIA H100)", "the device (which one is not known)".
std::string device_name(const model::Recording& recording, const analysis::DeviceIdleness& device);

/// Name of a call, or that it is not known.
std::string call_or_unknown(const Places& places, model::ApiId api);

/// What a group is called: the user's line, else the call and the innermost frame.
std::string origin_title(const Places& places, const analysis::GapGroup& group, const Place& place,
                         std::size_t width);

/// A moment as "+1.234 s": since the start of the recording, of its window where that is not known.
std::string format_moment(const ReportInput& input, std::int64_t at_ns);

}  // namespace gpuidle::report
