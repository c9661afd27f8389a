// SPDX-License-Identifier: Apache-2.0
//
// gpuidle dump: every record as a line, in order of time, with names instead of ids.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/format.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/dump_lines.h"

namespace gpuidle::cli {
namespace {

struct DumpOptions {
  std::string path;
  bool is_json = false;
  bool with_tables = false;
  bool is_strict = false;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
};

class Output {
 public:
  void put(const std::string& line) {
    has_failed_ |= std::fwrite(line.data(), 1, line.size(), stdout) != line.size();
  }
  bool flush() {
    has_failed_ |= std::fflush(stdout) != 0;
    return !has_failed_;
  }
  bool has_failed() const { return has_failed_; }

 private:
  bool has_failed_ = false;
};

// Merges the lists of a slice into one order of time.
class Dumper : public model::SliceVisitor {
 public:
  Dumper(const DumpLines& lines, std::uint64_t limit, Output* output)
      : lines_(lines), left_(limit), output_(*output) {}

  void on_slice(const model::Slice& slice) override {
    // Calls run ahead of their slice: what begins after its end waits for the next one.
    early_calls_.insert(early_calls_.end(), slice.calls.begin(), slice.calls.end());
    put(slice, slice.end_ns);
  }
  /// Calls that no slice came for.
  void finish() { put({}, std::numeric_limits<std::int64_t>::max()); }

 private:
  static std::int64_t start_of(const model::ApiCall& call) { return call.enter_ns; }
  template <typename Row>
  static std::int64_t start_of(const Row& row) {
    return row.start_ns;
  }
  // The next row of one list, if it begins at `at_ns`.
  template <typename Row>
  bool put_next(const std::vector<Row>& rows, std::size_t* next, std::int64_t at_ns) {
    if (*next == rows.size() || start_of(rows[*next]) != at_ns) return false;
    output_.put(lines_.line(rows[(*next)++]));
    --left_;
    return true;
  }
  void put(const model::Slice& slice, std::int64_t until_ns);

  const DumpLines& lines_;
  std::uint64_t left_;
  Output& output_;
  std::vector<model::ApiCall> early_calls_;
};

void Dumper::put(const model::Slice& slice, std::int64_t until_ns) {
  std::size_t call = 0, activity = 0, marker = 0, overhead = 0, unobserved = 0, gap = 0;
  std::size_t sample = 0;
  while (left_ > 0 && !output_.has_failed()) {
    std::int64_t at_ns = until_ns;
    const auto consider = [&at_ns](const auto& rows, std::size_t next) {
      if (next < rows.size()) at_ns = std::min(at_ns, start_of(rows[next]));
    };
    consider(early_calls_, call);
    consider(slice.activities, activity);
    consider(slice.markers, marker);
    consider(slice.overheads, overhead);
    consider(slice.unobserved, unobserved);
    consider(slice.gaps, gap);
    consider(slice.samples, sample);
    if (at_ns == until_ns) break;
    if (put_next(early_calls_, &call, at_ns)) continue;
    if (put_next(slice.activities, &activity, at_ns)) continue;
    if (put_next(slice.markers, &marker, at_ns)) continue;
    if (put_next(slice.overheads, &overhead, at_ns)) continue;
    if (put_next(slice.unobserved, &unobserved, at_ns)) continue;
    if (put_next(slice.gaps, &gap, at_ns)) continue;
    put_next(slice.samples, &sample, at_ns);
  }
  early_calls_.erase(early_calls_.begin(),
                     early_calls_.begin() + static_cast<std::ptrdiff_t>(call));
}

void put_tables(const model::Tables& tables, DumpLines& lines, Output* output) {
  for (const model::Device& device : tables.devices()) output->put(lines.device_line(device));
  const auto for_ids = [](std::size_t size, auto put) {
    for (std::size_t id = 1; id < size; ++id) put(static_cast<std::uint32_t>(id));
  };
  for_ids(tables.threads().size(), [&](auto id) { output->put(lines.thread_line(id)); });
  for_ids(tables.modules().size(), [&](auto id) { output->put(lines.module_line(id)); });
  for_ids(tables.kernels().size(), [&](auto id) { output->put(lines.kernel_line(id)); });
  for_ids(tables.stack_count(), [&](auto id) { output->put(lines.stack_line(id)); });
}

// The start of the recording, or of its first record where that is not known.
class FirstMoment : public model::SliceVisitor {
 public:
  std::int64_t at_ns = 0;
  void on_slice(const model::Slice& slice) override {
    if (!has_slice_) at_ns = slice.begin_ns;
    has_slice_ = true;
  }

 private:
  bool has_slice_ = false;
};

std::int64_t origin_of(const model::Recording& recording) {
  if (recording.info().recording_start_ns) return *recording.info().recording_start_ns;
  FirstMoment first;
  // Damage is met again, and told, by the visit that prints.
  static_cast<void>(recording.visit(first));
  return first.at_ns;
}

int dump(const DumpOptions& options) {
  base::Result<std::unique_ptr<model::Recording>> opened = import::open_recording(options.path);
  if (!opened.ok()) return fail(opened.status());
  const std::unique_ptr<model::Recording> recording = opened.take();
  DumpLines lines(*recording, origin_of(*recording), options.is_json);
  Output output;
  output.put(lines.head());
  if (options.with_tables) put_tables(recording->tables(), lines, &output);
  Dumper dumper(lines, options.limit, &output);
  const base::Status read_status = recording->visit(dumper);
  dumper.finish();
  if (!output.flush()) {
    return fail({base::StatusCode::io_error, "cannot write to standard output"});
  }
  for (const std::string& warning : recording->info().warnings) warn(warning);
  if (!read_status.ok()) warn(read_status.message());
  const bool is_incomplete = !read_status.ok() || !recording->info().is_whole();
  return options.is_strict && is_incomplete ? kIncomplete : kDone;
}

}  // namespace

void add_dump(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("dump", "Every record as a line, in order of time");
  auto options = std::make_shared<DumpOptions>();
  command->add_option("FILE", options->path, kRecordingHelp)->required();
  command->add_flag("--json", options->is_json, "One JSON object per line");
  command->add_flag("--tables", options->with_tables,
                    "First the devices, threads, modules, kernels and stacks");
  command->add_flag("--strict", options->is_strict, kStrictHelp);
  command->add_option("--limit", options->limit, "Stop after this many records");
  command->footer(
      "Damage ends the lines with a warning on standard error.\n"
      "Exit codes: 0 done, 1 the file cannot be read, 2 usage, 3 incomplete and --strict,\n"
      "5 not a recording or of an unknown version.");
  command->callback([options, exit_code] { *exit_code = dump(*options); });
}

}  // namespace gpuidle::cli
