// SPDX-License-Identifier: Apache-2.0
//
// gpuidle convert: writes any recording that can be read as a trace of ours, slice by slice.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/trace/trace_writer.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/progress_line.h"

namespace gpuidle::cli {
namespace {

struct ConvertOptions {
  std::string input;
  std::string output;
};

// Hands each slice to the writer; after the first failure the rest goes by unwritten.
class SliceWriter : public model::SliceVisitor {
 public:
  SliceWriter(const model::Recording& recording, trace::TraceWriter* writer)
      : recording_(recording), writer_(*writer) {}

  void on_slice(const model::Slice& slice) override {
    if (!status_.ok()) return;
    slice_ = slice;  // the writer sorts in place
    activities_ += slice.activities.size();
    calls_ += slice.calls.size();
    markers_ += slice.markers.size();
    memory_events_ += slice.memory.size();
    status_ = writer_.write(recording_.tables(), slice_, recording_.info().losses);
  }
  /// Rows of the tables that no slice came for.
  void finish() {
    if (!status_.ok()) return;
    slice_.clear();
    status_ = writer_.write(recording_.tables(), slice_, recording_.info().losses);
  }
  std::uint64_t memory_events() const { return memory_events_; }
  const base::Status& status() const { return status_; }
  std::string counts() const {
    return fmt::format("{}, {}, {}", report::count_of(activities_, "device record"),
                       report::count_of(calls_, "call"), report::count_of(markers_, "marker"));
  }

 private:
  const model::Recording& recording_;
  trace::TraceWriter& writer_;
  model::Slice slice_;
  base::Status status_;
  std::uint64_t activities_ = 0, calls_ = 0, markers_ = 0, memory_events_ = 0;
};

// A trace without a footer reads as one that ended abruptly, which is what its source did.
base::Status write_end(const model::RecordingInfo& info, trace::TraceWriter* writer) {
  return info.end == model::End::abrupt ? writer->write_info(info) : writer->finish(info);
}

int convert(const ConvertOptions& options) {
  ProgressLine progress("converting " + options.input);
  base::Result<std::unique_ptr<model::Recording>> opened = import::open_recording(options.input);
  if (!opened.ok()) return fail(opened.status());
  const std::unique_ptr<model::Recording> recording = opened.take();
  base::Result<std::unique_ptr<trace::TraceWriter>> created =
      trace::TraceWriter::create(options.output, recording->info(), {});
  if (!created.ok()) return fail(created.status());
  const std::unique_ptr<trace::TraceWriter> writer = created.take();

  SliceWriter slices(*recording, writer.get());
  base::Status status = recording->visit(slices);
  slices.finish();
  if (status.ok()) status = slices.status();
  if (status.ok()) status = write_end(recording->info(), writer.get());
  if (!status.ok()) {
    // Half a recording under the name of a whole one would be believed; the file is ours, made
    // exclusively above.
    ::unlink(options.output.c_str());
    return fail(status);
  }
  progress.end();
  for (const std::string& warning : recording->info().warnings) warn(warning);
  if (slices.memory_events() != 0) {
    warn(fmt::format("left out: {}, which a gpuidle trace has no place for; report on {} itself",
                     report::count_of(slices.memory_events(), "device memory event"),
                     options.input));
  }
  std::error_code error;
  const std::uintmax_t input_bytes = std::filesystem::file_size(options.input, error);
  const std::string line =
      fmt::format("wrote {}: {}, {} bytes ({}: {}{})\n", options.output, slices.counts(),
                  writer->bytes_written(), options.input, recording->info().format,
                  error ? std::string() : fmt::format(", {} bytes", input_bytes));
  if (const base::Status printed = print(line); !printed.ok()) return fail(printed);
  return kDone;
}

}  // namespace

void add_convert(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("convert", "Any recording as a gpuidle trace");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("FILE", options->input, kRecordingHelp)->required();
  command->add_option("OUTPUT", options->output, "The trace to write; must not exist")->required();
  command->footer(
      "Exit codes: 0 done, 1 the file cannot be read to its end or the trace cannot be written\n"
      "(then there is none), 2 usage, 5 not a recording or of an unknown version.");
  command->callback([options, exit_code] { *exit_code = convert(*options); });
}

}  // namespace gpuidle::cli
