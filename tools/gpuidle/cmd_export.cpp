// SPDX-License-Identifier: Apache-2.0
//
// gpuidle export: a recording in the formats of other people's viewers: timelines with the idle
// gaps on rows of their own, flame graphs of idle time.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/export_chrome.h"
#include "libgpuidle/report/export_flame.h"
#include "libgpuidle/report/export_perfetto.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/text_report.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/frames_option.h"
#include "tools/gpuidle/progress_line.h"

namespace gpuidle::cli {
namespace {

struct ExportOptions {
  std::string input;
  std::string format;
  std::string output;
  FramesOption frames;

  bool is_to_stdout() const { return output == "-"; }
};

// The output file; "-" is standard output. What is there is never overwritten.
class OutputFile : public report::ExportSink {
 public:
  explicit OutputFile(const ExportOptions& options) : path_(options.output) {
    if (options.is_to_stdout()) {
      file_ = stdout;
      return;
    }
    const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) file_ = ::fdopen(descriptor, "wb");
    if (file_ == nullptr) set_failed("create");
  }
  ~OutputFile() override {
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes) override {
    if (!status_.ok()) return;
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) set_failed("write");
    bytes_ += bytes.size();
  }
  const base::Status& status() const { return status_; }
  std::uint64_t bytes() const { return bytes_; }

  base::Status close() {
    if (status_.ok() && std::fflush(file_) != 0) set_failed("write");
    if (file_ != nullptr && file_ != stdout && std::fclose(file_) != 0 && status_.ok()) {
      set_failed("write");
    }
    file_ = nullptr;
    return status_;
  }
  // Half an export under the name of a whole one would be believed.
  void remove() {
    if (file_ != stdout) ::unlink(path_.c_str());
  }

 private:
  void set_failed(const char* what) {
    const char* hint = errno == EEXIST ? "; choose another name or remove it first" : "";
    status_ = {base::StatusCode::io_error,
               fmt::format("cannot {} {}: {}{}", what, path_, std::strerror(errno), hint)};
  }

  std::string path_;
  std::FILE* file_ = nullptr;
  base::Status status_;
  std::uint64_t bytes_ = 0;
};

struct Exported {
  base::Status read_status;
  analysis::Idleness found;
  std::string summary;
};

Exported export_rows(const model::Recording& recording, report::TimelineFormat* format) {
  Exported done;
  report::ExportCounts counts;
  done.read_status = report::export_timeline(recording, format, &done.found, &counts);
  done.summary = fmt::format("{}, {}, {}, {}", report::count_of(counts.gaps, "gap"),
                             report::count_of(counts.activities, "device record"),
                             report::count_of(counts.calls, "call"),
                             report::count_of(counts.markers, "marker"));
  if (counts.left_out > 0) {
    done.summary += fmt::format("; {} left out (overlapping too often, reversed or unknown)",
                                report::count_of(counts.left_out, "record"));
  }
  return done;
}

Exported export_stacks(const model::Recording& recording, const ExportOptions& options,
                       OutputFile* output) {
  Exported done;
  report::Places places(recording.tables(), options.frames.view());
  analysis::Options analysis_options;
  analysis_options.largest_gaps = 0;
  analysis_options.names = &places;
  done.read_status = analysis::analyze(recording, analysis_options, &done.found);
  if (options.format == "folded") {
    report::export_folded(done.found, places, output);
  } else {
    const std::string title = options.input.substr(options.input.rfind('/') + 1);
    report::export_speedscope(recording, done.found, title, places, output);
  }
  done.summary =
      fmt::format("{} of idle time from {}", report::format_duration(done.found.idle_ns()),
                  report::count_of(done.found.groups.size(), "place"));
  return done;
}

Exported export_recording(const model::Recording& recording, const ExportOptions& options,
                          OutputFile* output) {
  if (options.format == "chrome") {
    report::ChromeTimeline format(output);
    return export_rows(recording, &format);
  }
  if (options.format == "perfetto") {
    report::PerfettoTimeline format(output);
    return export_rows(recording, &format);
  }
  return export_stacks(recording, options, output);
}

int run_export(const ExportOptions& options) {
  ProgressLine progress("exporting " + options.input);
  base::Result<std::unique_ptr<model::Recording>> opened = import::open_recording(options.input);
  if (!opened.ok()) return fail(opened.status());
  const std::unique_ptr<model::Recording> recording = opened.take();
  OutputFile output(options);
  if (!output.status().ok()) return fail(output.status());

  const Exported done = export_recording(*recording, options, &output);
  const base::Status written = output.close();
  progress.end();
  if (!written.ok() || !done.read_status.ok()) {
    output.remove();
    return fail(written.ok() ? done.read_status : written);
  }
  for (const std::string& warning : recording->info().warnings) warn(warning);
  if (report::has_no_gpu_records(done.found)) {
    output.remove();
    std::fprintf(stderr, "gpuidle: %s says nothing about a GPU: there is nothing to export\n",
                 options.input.c_str());
    return kNoGpuRecords;
  }
  if (options.is_to_stdout()) return kDone;
  const std::string line =
      fmt::format("wrote {}: {}, {} bytes\n", options.output, done.summary, output.bytes());
  if (const base::Status printed = print(line); !printed.ok()) return fail(printed);
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("export", "Timelines and idle flame graphs for other viewers");
  auto options = std::make_shared<ExportOptions>();
  command->add_option("FILE", options->input, kRecordingHelp)->required();
  command
      ->add_option("--to", options->format,
                   "chrome, perfetto: a timeline; speedscope, folded: a flame graph of idle time")
      ->required()
      ->check(CLI::IsMember({"chrome", "perfetto", "speedscope", "folded"}));
  command
      ->add_option("-o,--output", options->output, "The file to write; must not exist; - is stdout")
      ->required();
  options->frames.add_to(*command);
  command->footer(
      "Flame graphs weigh the stacks at the edges of idle gaps with the gaps' nanoseconds.\n"
      "Exit codes: 0 done, 1 the file cannot be read to its end or the output cannot be written\n"
      "(then there is none), 2 usage, 5 not a recording or of an unknown version,\n"
      "6 the recording says nothing about a GPU (then there is no output).");
  command->callback([options, exit_code] { *exit_code = run_export(*options); });
}

}  // namespace gpuidle::cli
