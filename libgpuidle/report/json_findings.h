// SPDX-License-Identifier: Apache-2.0
//
// Findings and gaps as JSON: what they are made of, for programs. Part of the JSON report.
#pragma once

#include <string_view>

#include "libgpuidle/report/json_writer.h"
#include "libgpuidle/report/places.h"
#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

/// Writes the fields "findings", "findings_set_aside", "combined_saving_at_most_ns" and
/// "warm_up_ns" into the current object.
void write_findings(const ReportInput& input, Places& places, JsonWriter* json);

/// Writes the field "idle_split".
void write_split(const analysis::IdleSplit& split, JsonWriter* json);
/// Writes a gap as an object.
void write_gap(const analysis::Gap& gap, Places& places, JsonWriter* json);
/// Writes the fields "user_frame_index" and "stack".
void write_stack(const Place& place, JsonWriter* json);

/// "A", "B" or "C".
std::string_view grade_key(analysis::Grade grade);

}  // namespace gpuidle::report
