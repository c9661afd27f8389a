// SPDX-License-Identifier: Apache-2.0
//
// gpuidle info: facts about a recording and how many records of each kind it holds; for traces of
// ours also what the file is made of.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/json_report.h"
#include "libgpuidle/report/words.h"
#include "libgpuidle/trace/trace_file_facts.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/progress_line.h"
#include "tools/gpuidle/record_words.h"

namespace gpuidle::cli {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kIndent = 13;
constexpr std::size_t kActivityKindCount = 5;
constexpr std::size_t kRoleCount = 14;

struct InfoOptions {
  std::string path;
  bool is_json = false;
  bool is_strict = false;
};

// Counts every record and learns when the first one begins and the last one ends.
class RecordCounter : public model::SliceVisitor {
 public:
  std::array<std::uint64_t, kActivityKindCount> activities{};
  std::array<std::uint64_t, kRoleCount> calls{};
  std::uint64_t activity_count = 0, call_count = 0, marker_count = 0, overhead_count = 0;
  std::uint64_t unobserved_count = 0, gap_count = 0, failed_call_count = 0;
  std::uint64_t sample_count = 0;
  std::optional<std::int64_t> first_start_ns, last_end_ns;

  void on_slice(const model::Slice& slice) override {
    for (const auto& a : slice.activities) {
      ++activities[static_cast<std::size_t>(a.kind) % kActivityKindCount];
      cover(a.start_ns, a.end_ns);
    }
    for (const auto& c : slice.calls) {
      ++calls[static_cast<std::size_t>(c.role) % kRoleCount];
      if (c.result != 0) ++failed_call_count;
      cover(c.enter_ns, c.exit_ns);
    }
    for (const auto& m : slice.markers) cover(m.start_ns, m.end_ns);
    for (const auto& o : slice.overheads) cover(o.start_ns, o.end_ns);
    for (const auto& u : slice.unobserved) cover(u.start_ns, u.end_ns);
    for (const auto& g : slice.gaps) cover(g.start_ns, g.end_ns);
    for (const auto& s : slice.samples) cover(s.start_ns, s.end_ns);
    activity_count += slice.activities.size();
    call_count += slice.calls.size();
    marker_count += slice.markers.size();
    overhead_count += slice.overheads.size();
    unobserved_count += slice.unobserved.size();
    gap_count += slice.gaps.size();
    sample_count += slice.samples.size();
  }

 private:
  void cover(std::int64_t start_ns, std::int64_t end_ns) {
    first_start_ns = std::min(first_start_ns.value_or(start_ns), start_ns);
    last_end_ns = std::max(last_end_ns.value_or(end_ns), end_ns);
  }
};

struct Facts {
  const model::Recording& recording;
  RecordCounter counted;
  base::Status read_status;
  std::optional<trace::TraceFileFacts> file;  ///< traces of ours only

  const model::RecordingInfo& info() const { return recording.info(); }
  std::optional<std::int64_t> start_ns() const {
    return info().recording_start_ns ? info().recording_start_ns : counted.first_start_ns;
  }
  std::optional<std::int64_t> end_ns() const {
    return info().recording_end_ns ? info().recording_end_ns : counted.last_end_ns;
  }
  std::optional<std::int64_t> duration_ns() const {
    if (!start_ns() || !end_ns()) return std::nullopt;
    return *end_ns() - *start_ns();
  }
  /// Start in UTC as ISO 8601 with milliseconds.
  std::optional<std::string> start_utc() const;
};

std::optional<std::string> Facts::start_utc() const {
  if (!start_ns() || !info().realtime_offset_ns) return std::nullopt;
  std::int64_t realtime_ns = 0;
  if (__builtin_add_overflow(*start_ns(), *info().realtime_offset_ns, &realtime_ns)) {
    return std::nullopt;
  }
  constexpr std::int64_t kSecond_ns = 1'000'000'000;
  std::int64_t remainder_ns = realtime_ns % kSecond_ns;
  if (remainder_ns < 0) remainder_ns += kSecond_ns;
  const std::time_t seconds = (realtime_ns - remainder_ns) / kSecond_ns;
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) return std::nullopt;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     remainder_ns / 1'000'000);
}

std::string row(const std::string& name, const std::string& text) {
  return report::wrap(text, fmt::format("{:<{}}", name, kIndent), kIndent);
}

template <std::size_t kCount, typename Enumeration>
std::string by_kind(const std::array<std::uint64_t, kCount>& counts, Enumeration) {
  std::string text;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (counts[i] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", report::format_count(counts[i]),
                        word_of(static_cast<Enumeration>(i)));
  }
  return text;
}

std::string text_program(const Facts& facts) {
  const model::RecordingInfo& info = facts.info();
  std::string text;
  text += row("program", info.program.empty() ? "not known" : report::elide(info.program, 200));
  std::string command;
  for (const std::string& word : info.command) command += (command.empty() ? "" : " ") + word;
  if (!command.empty()) text += row("command", report::elide(command, 400));
  std::string process = info.pid == 0 ? "not known" : std::to_string(info.pid);
  if (!info.host_name.empty()) process += " on " + report::elide(info.host_name, 60);
  if (info.rank) process += fmt::format(", rank {}", *info.rank);
  if (info.rank && info.world_size) process += fmt::format(" of {}", *info.world_size);
  text += row("process", process);
  text += row("started", facts.start_utc().value_or("not known"));
  text += row("duration",
              facts.duration_ns() ? report::format_duration(*facts.duration_ns()) : "not known");
  text += row("ended", std::string(report::word_of(info.end).phrase));
  return text;
}

std::string text_devices(const Facts& facts) {
  const model::Tables& tables = facts.recording.tables();
  std::string text;
  for (const model::Device& d : tables.devices()) {
    std::string line = report::elide(tables.string(d.name), 60);
    if (line.empty()) line = "name not known";
    if (d.multiprocessors != 0) line += fmt::format(", {} multiprocessors", d.multiprocessors);
    if (d.compute_major != 0) {
      line += fmt::format(", compute capability {}.{}", d.compute_major, d.compute_minor);
    }
    if (d.memory_bytes != 0) line += fmt::format(", {} MiB", d.memory_bytes >> 20);
    if (d.merely_listed) line += ", visible to the program";
    text += row(fmt::format("device {}", d.ordinal), line);
  }
  return text.empty() ? row("devices", "not known") : text;
}

std::string text_counts(const Facts& facts) {
  const RecordCounter& c = facts.counted;
  std::string text = row("activities", report::format_count(c.activity_count) +
                                           by_kind(c.activities, model::ActivityKind{}));
  text += row("calls", report::format_count(c.call_count) + by_kind(c.calls, model::ApiRole{}));
  if (c.failed_call_count > 0) {
    text += row("", fmt::format("{} returned an error", report::format_count(c.failed_call_count)));
  }
  text += row("launches", report::format_count(facts.info().launch_calls) + " seen");
  text +=
      row("other", fmt::format("{}, {}, {}, {}, {}", report::count_of(c.gap_count, "recorded gap"),
                               report::count_of(c.marker_count, "marker"),
                               report::count_of(c.overhead_count, "overhead"),
                               report::count_of(c.unobserved_count, "unobserved span"),
                               report::count_of(c.sample_count, "sample")));
  const model::Tables& tables = facts.recording.tables();
  text += row("tables",
              fmt::format("{}, {}, {}, {}", report::count_of(tables.kernels().size() - 1, "kernel"),
                          report::count_of(tables.stack_count() - 1, "stack"),
                          report::count_of(tables.threads().size() - 1, "thread"),
                          report::count_of(tables.modules().size() - 1, "module")));
  return text;
}

std::string text_losses(const model::Losses& losses) {
  std::string text;
  for (std::size_t i = 0; i < losses.count.size(); ++i) {
    if (losses.count[i] == 0) continue;
    text += row(text.empty() ? "lost" : "",
                fmt::format("{} {}", report::format_count(losses.count[i]),
                            report::word_of(static_cast<model::LossReason>(i)).phrase));
  }
  return text.empty() ? row("lost", "nothing that is known of") : text;
}

std::string text_file(const trace::TraceFileFacts& file) {
  std::uint64_t chunks = 0, stored = 0, uncompressed = 0;
  std::string kinds;
  for (const trace::ChunkKindFacts& kind : file.kinds) {
    chunks += kind.chunk_count;
    stored += kind.stored_bytes;
    uncompressed += kind.uncompressed_bytes;
    kinds += row("", fmt::format("{}: {}, {} bytes ({} uncompressed)", kind.kind,
                                 report::count_of(kind.chunk_count, "chunk"),
                                 report::format_count(kind.stored_bytes),
                                 report::format_count(kind.uncompressed_bytes)));
  }
  std::string text = fmt::format("{} bytes in {}", report::format_count(file.file_bytes),
                                 report::count_of(chunks, "chunk"));
  if (stored > 0) {
    text += fmt::format(", compressed {:.2f} : 1",
                        static_cast<double>(uncompressed) / static_cast<double>(stored));
  }
  return row("file", text) + kinds;
}

std::string text_info(const Facts& facts) {
  const model::RecordingInfo& info = facts.info();
  std::string text =
      row("producer", info.producer.empty() ? "not known" : report::elide(info.producer, 80));
  text += row("format", info.format);
  std::string source(report::word_of(info.source).phrase);
  if (!info.source_reason.empty()) source += ": " + info.source_reason;
  text += row("source", source);
  if (!info.detail_level.empty()) text += row("detail", info.detail_level);
  text += text_program(facts) + text_devices(facts) + text_counts(facts);
  text += text_losses(info.losses);
  for (const std::string& warning : info.warnings) text += row("warning", warning);
  if (!facts.read_status.ok()) {
    text += row("damage", facts.read_status.message() + "; what follows is missing here");
  }
  if (facts.file) text += text_file(*facts.file);
  for (const std::string& setting : info.settings) text += row("setting", setting);
  return text;
}

void json_devices(const model::Tables& tables, report::JsonWriter* json) {
  json->key("devices").begin_array();
  for (const model::Device& d : tables.devices()) {
    json->begin_object().field("device", d.ordinal).field("name", tables.string(d.name));
    json->field("multiprocessor_count", d.multiprocessors);
    json->field("compute_major", d.compute_major).field("compute_minor", d.compute_minor);
    json->field("memory_bytes", d.memory_bytes).field("merely_listed", d.merely_listed);
    json->end_object();
  }
  json->end_array();
}

void json_counts(const Facts& facts, report::JsonWriter* json) {
  const RecordCounter& c = facts.counted;
  json->field("activity_count", c.activity_count).key("activities_by_kind").begin_object();
  for (std::size_t i = 0; i < c.activities.size(); ++i) {
    json->field(word_of(static_cast<model::ActivityKind>(i)), c.activities[i]);
  }
  json->end_object();
  json->field("call_count", c.call_count).key("calls_by_role").begin_object();
  for (std::size_t i = 0; i < c.calls.size(); ++i) {
    json->field(word_of(static_cast<model::ApiRole>(i)), c.calls[i]);
  }
  json->end_object();
  json->field("failed_call_count", c.failed_call_count);
  json->field("launch_call_count", facts.info().launch_calls);
  json->field("recorded_gap_count", c.gap_count).field("marker_count", c.marker_count);
  json->field("overhead_count", c.overhead_count).field("unobserved_count", c.unobserved_count);
  json->field("sample_count", c.sample_count);
}

void json_file(const std::optional<trace::TraceFileFacts>& file, report::JsonWriter* json) {
  json->key("file");
  if (!file) {
    json->null();
    return;
  }
  json->begin_object().field("file_bytes", file->file_bytes).field("has_index", file->has_index);
  json->key("chunks").begin_array();
  for (const trace::ChunkKindFacts& kind : file->kinds) {
    json->begin_object().field("kind", kind.kind).field("chunk_count", kind.chunk_count);
    json->field("record_count", kind.record_count).field("stored_bytes", kind.stored_bytes);
    json->field("uncompressed_bytes", kind.uncompressed_bytes).end_object();
  }
  json->end_array().end_object();
}

std::string json_info(const Facts& facts) {
  report::JsonWriter json;
  json.begin_object().field("schema", "gpuidle.info").field("version", kVersion);
  report::write_recording(facts.info(), &json);
  json.field("start_utc", facts.start_utc()).field("start_ns", facts.start_ns());
  json.field("end_ns", facts.end_ns()).field("duration_ns", facts.duration_ns());
  json_devices(facts.recording.tables(), &json);
  json_counts(facts, &json);
  json.field("read_error", facts.read_status.message());
  json.key("settings").begin_array();
  for (const std::string& setting : facts.info().settings) json.value(setting);
  json.end_array();
  json_file(facts.file, &json);
  json.end_object();
  return json.take();
}

int show_info(const InfoOptions& options) {
  ProgressLine progress("reading " + options.path);
  base::Result<std::unique_ptr<model::Recording>> opened = import::open_recording(options.path);
  if (!opened.ok()) return fail(opened.status());
  const std::unique_ptr<model::Recording> recording = opened.take();
  Facts facts{*recording, {}, {}, std::nullopt};
  facts.read_status = recording->visit(facts.counted);
  if (recording->info().source != model::Source::imported) {
    base::Result<trace::TraceFileFacts> file = trace::read_file_facts(options.path);
    if (file.ok()) facts.file = file.take();
  }
  progress.end();
  const std::string shown = options.is_json ? json_info(facts) : text_info(facts);
  if (const base::Status printed = print(shown); !printed.ok()) return fail(printed);
  const bool is_incomplete = !recording->info().is_whole() || !facts.read_status.ok();
  return options.is_strict && is_incomplete ? kIncomplete : kDone;
}

}  // namespace

void add_info(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("info", "What was recorded, how, and what is missing");
  auto options = std::make_shared<InfoOptions>();
  command->add_option("FILE", options->path, kRecordingHelp)->required();
  command->add_flag("--json", options->is_json, "One JSON document instead of text");
  command->add_flag("--strict", options->is_strict, kStrictHelp);
  command->footer(
      "Exit codes: 0 done, 1 the file cannot be read, 2 usage, 3 incomplete and --strict,\n"
      "5 not a recording or of an unknown version.");
  command->callback([options, exit_code] { *exit_code = show_info(*options); });
}

}  // namespace gpuidle::cli
