// SPDX-License-Identifier: Apache-2.0
//
// The comparison of two recordings for people and for programs, from the same structs. Fed by
// `gpuidle diff`.
#pragma once

#include <string>

#include "libgpuidle/analysis/compare.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/report/terminal.h"

namespace gpuidle::report {

struct DiffSide {
  std::string path;
  model::RecordingInfo info;
  analysis::RunFigures figures;
  std::string read_error;  ///< "" = read to its end
};

struct DiffInput {
  const DiffSide& before;
  const DiffSide& after;
  const analysis::RunComparison& compared;
};

/// At most 80 columns, ends with a newline. Context: tool.
std::string text_diff(const DiffInput& input, const Style& style);
/// Schema "gpuidle.diff".
std::string json_diff(const DiffInput& input);

}  // namespace gpuidle::report
