// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/recording_view.h"

#include <cstdio>
#include <memory>
#include <optional>

#include "libgpuidle/analysis/device_memory.h"
#include "libgpuidle/analysis/device_use.h"
#include "libgpuidle/analysis/findings.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/analysis/steps.h"
#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/terminal.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/progress_line.h"

namespace gpuidle::cli {
namespace {

report::ColorMode color_mode_of(const std::string& word) {
  if (word == "always") return report::ColorMode::always;
  if (word == "never") return report::ColorMode::never;
  return report::ColorMode::automatic;
}

// What measures gaps beside the analysis, in the same pass.
class BothSinks : public analysis::GapSink {
 public:
  BothSinks(analysis::GapSink* first, analysis::GapSink* second) : first_(first), second_(second) {}
  void on_gap(const analysis::Gap& gap) override {
    first_->on_gap(gap);
    second_->on_gap(gap);
  }

 private:
  analysis::GapSink* first_;
  analysis::GapSink* second_;
};

}  // namespace

CLI::Option* RecordingView::add_options(CLI::App& command, const std::string& what) {
  CLI::Option* files = command.add_option("FILE", paths, kRecordingHelp)->required()->expected(1);
  command.add_option("--top", top, "How many " + what + " to show")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  frames.add_to(command);
  add_output_options(command);
  return files;
}

void RecordingView::add_output_options(CLI::App& command) {
  command.add_flag("--json", is_json, "One JSON document instead of text");
  command.add_option("--color", color, "auto: if stdout is a terminal and NO_COLOR is not set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  command.add_flag("--strict", is_strict, kStrictHelp);
  command.footer(
      "Exit codes: 0 done, 1 the file cannot be read, 2 usage, 3 incomplete and --strict,\n"
      "5 not a recording or of an unknown version, 6 the recording says nothing about a GPU.");
}

bool wants_color(const RecordingView& view) {
  return report::wants_color(color_mode_of(view.color));
}

int show(const RecordingView& view, std::size_t largest_gaps, TextView text, JsonView json) {
  ProgressLine progress("reading " + view.paths.front());
  base::Result<std::unique_ptr<model::Recording>> opened =
      import::open_recording(view.paths.front());
  if (!opened.ok()) return fail(opened.status());
  const std::unique_ptr<model::Recording> recording = opened.take();

  progress.follow(recording->info());
  report::Places places(recording->tables(), view.frames.view());
  analysis::Options options;
  options.largest_gaps = largest_gaps;
  options.names = &places;
  analysis::DeviceUseMeter meter(*recording);
  analysis::StepFinder steps(*recording);
  BothSinks gap_sinks(&meter, &steps);
  options.gaps = &gap_sinks;
  analysis::DeviceMemoryMeter memory_meter;
  options.also = {&meter, &steps, &memory_meter, &progress};
  analysis::Idleness found;
  const base::Status read_status = analysis::analyze(*recording, options, &found);
  const analysis::DeviceUse use = meter.finish();
  const std::optional<analysis::StepTimes> step_times = steps.finish();
  const std::vector<analysis::MemoryUse> memory = memory_meter.finish(recording->tables());
  const analysis::Findings findings = analysis::find_causes(*recording, found, {}, memory);
  const std::vector<analysis::GapGroup> origins = report::joined_by_line(found.groups, places);
  const report::ReportInput input{
      *recording,  found,    findings, origins,
      read_status, view.top, &use,     step_times ? &*step_times : nullptr,
      &memory};
  progress.end();
  const report::Style style(wants_color(view));
  const std::string shown = view.is_json ? json(input, places) : text(input, places, style);
  if (const base::Status printed = print(shown, "the report"); !printed.ok()) return fail(printed);
  if (report::has_no_gpu_records(found)) return kNoGpuRecords;
  return view.is_strict && report::is_incomplete(input) ? kIncomplete : kDone;
}

}  // namespace gpuidle::cli
