// SPDX-License-Identifier: Apache-2.0
//
// The lines of the user's program that a finding leads to: places of the analysis whose stacks meet
// in one line are one. Fed with findings; used by the text and JSON reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libgpuidle/analysis/findings.h"
#include "libgpuidle/report/places.h"

namespace gpuidle::report {

struct FindingLine {
  Place place;  ///< of the costliest stack that leads there
  model::ApiId api = 0;
  std::uint64_t count = 0;  ///< gaps or transfers
  std::int64_t total_ns = 0;
  std::int64_t removable_ns = 0;
  std::optional<analysis::Gap> longest;

  /// "step (train.py:42)", else the call and the innermost frame, within `width` columns.
  std::string title(const Places& places, std::size_t width) const;
  /// "train.py:42", else "that place".
  std::string short_name() const;
};

/// Most time first. Context: tool.
std::vector<FindingLine> lines_of(const analysis::Finding& finding, Places& places);

/// The fix of a finding, with its costliest line in it.
std::string fix_of(const analysis::Finding& finding, const std::vector<FindingLine>& lines);

}  // namespace gpuidle::report
