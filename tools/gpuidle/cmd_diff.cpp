// SPDX-License-Identifier: Apache-2.0
//
// gpuidle diff: what a change of the program did to its idle time, and whether it did what the
// report had predicted.
#include <cstdio>
#include <memory>
#include <string>

#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/diff_report.h"
#include "libgpuidle/report/places.h"
#include "libgpuidle/report/text_report.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/recording_view.h"

namespace gpuidle::cli {
namespace {

struct DiffOptions {
  std::string before;
  std::string after;
  RecordingView view;  // --json, --color and --strict
};

// `*has_gpu_records` is false if the recording says nothing about a GPU.
base::Status read(const std::string& path, report::DiffSide* side, bool* has_gpu_records) {
  base::Result<std::unique_ptr<model::Recording>> opened = import::open_recording(path);
  if (!opened.ok()) return opened.status();
  const std::unique_ptr<model::Recording> recording = opened.take();
  report::Places places(recording->tables());
  analysis::StepMeter steps;
  analysis::Options options;
  options.largest_gaps = 0;
  options.names = &places;
  options.also = {&steps};
  analysis::Idleness found;
  const base::Status status = analysis::analyze(*recording, options, &found);
  if (!status.ok()) side->read_error = status.message();
  *has_gpu_records = !report::has_no_gpu_records(found);
  side->path = path;
  side->info = recording->info();
  side->figures = analysis::figures_of(found, analysis::find_causes(*recording, found, {}), steps);
  return {};
}

bool is_incomplete(const report::DiffSide& side) {
  return !side.read_error.empty() || !side.info.is_whole();
}

int diff(const DiffOptions& options) {
  report::DiffSide before, after;
  for (const bool is_before : {true, false}) {
    const std::string& path = is_before ? options.before : options.after;
    bool has_gpu_records = false;
    const base::Status status = read(path, is_before ? &before : &after, &has_gpu_records);
    if (!status.ok()) return fail(status);
    if (has_gpu_records) continue;
    std::fprintf(stderr, "gpuidle: %s says nothing about a GPU: there is nothing to compare\n",
                 path.c_str());
    return kNoGpuRecords;
  }
  const analysis::RunComparison compared = analysis::compare_runs(before.figures, after.figures);
  const report::DiffInput input{before, after, compared};
  const std::string shown =
      options.view.is_json ? report::json_diff(input)
                           : report::text_diff(input, report::Style(wants_color(options.view)));
  if (const base::Status printed = print(shown); !printed.ok()) return fail(printed);
  const bool is_cut = is_incomplete(before) || is_incomplete(after);
  return options.view.is_strict && is_cut ? kIncomplete : kDone;
}

}  // namespace

void add_diff(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("diff", "What changed between two recordings, and was it predicted");
  auto options = std::make_shared<DiffOptions>();
  command->add_option("BEFORE", options->before, kRecordingHelp)->required();
  command->add_option("AFTER", options->after, "The same program after a change")->required();
  options->view.add_output_options(*command);
  command->callback([options, exit_code] { *exit_code = diff(*options); });
}

}  // namespace gpuidle::cli
