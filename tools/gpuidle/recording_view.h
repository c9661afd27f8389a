// SPDX-License-Identifier: Apache-2.0
//
// What `report` and `gaps` have in common: their options, and the way from a file to text or JSON
// and an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "libgpuidle/report/json_report.h"
#include "libgpuidle/report/text_report.h"
#include "tools/gpuidle/frames_option.h"

namespace gpuidle::cli {

struct RecordingView {
  std::vector<std::string> paths;
  std::string color = "auto";
  std::size_t top = 0;
  bool is_top_given = false;  ///< after parsing: by --top, so that `top` is no default
  bool is_json = false;
  bool is_strict = false;
  FramesOption frames;

  /// `what` is what --top counts. The returned option takes one FILE.
  CLI::Option* add_options(CLI::App& command, const std::string& what);
  /// --json, --color, --strict and the exit codes alone.
  void add_output_options(CLI::App& command);
};

using TextView = std::string (*)(const report::ReportInput&, report::Places&, const report::Style&);
using JsonView = std::string (*)(const report::ReportInput&, report::Places&);

/// Whether --color asks for it.
bool wants_color(const RecordingView& view);

/// Opens the first path, analyses and prints to stdout; the exit code. `largest_gaps` are kept by
/// the analysis.
int show(const RecordingView& view, std::size_t largest_gaps, TextView text, JsonView json);

}  // namespace gpuidle::cli
