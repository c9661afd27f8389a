// SPDX-License-Identifier: Apache-2.0
//
// The findings for people: what each costs, what removing it saves at most, how to, and how well it
// is founded. Part of the text report.
#pragma once

#include <string>

#include "libgpuidle/report/text_report.h"

namespace gpuidle::report {

/// All findings that are told, with their heading; "" if there are none.
std::string text_findings(const ReportInput& input, Places& places, const Style& style);

/// One sentence on the first finding for the verdict; "" if there are none.
std::string first_finding(const ReportInput& input, Places& places);

/// What the grade of a finding rests on, or what evidence is missing: "grade B: ...".
std::string evidence_of(const analysis::Finding& finding);

}  // namespace gpuidle::report
