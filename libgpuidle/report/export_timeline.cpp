// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/export_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "libgpuidle/report/export_lanes.h"
#include "libgpuidle/report/places.h"
#include "libgpuidle/report/words.h"
#include "libgpuidle/symbols/demangle.h"

namespace gpuidle::report {
namespace {

constexpr std::string_view kCopyKinds[] = {"unknown",          "host to device", "device to host",
                                           "device to device", "host to host",   "peer to peer"};
constexpr std::string_view kMemoryKinds[] = {"unknown",       "pageable",      "pinned",
                                             "device",        "array",         "managed",
                                             "device static", "managed static"};

template <typename Kind, std::size_t kCount>
std::string_view word(const std::string_view (&words)[kCount], Kind kind) {
  const auto number = static_cast<std::size_t>(kind);
  return number < kCount ? words[number] : words[0];
}

std::string_view grade_word(analysis::Grade grade) {
  constexpr std::string_view kGrades[] = {"A", "B", "C"};
  return kGrades[static_cast<std::size_t>(grade)];
}

// What the rows of a group are for, from top to bottom.
enum class RowKind : std::uint8_t { gaps, stream, steps, calls, marks, overhead, unobserved };

// The earliest start among all records.
class Earliest : public model::SliceVisitor {
 public:
  void on_slice(const model::Slice& slice) override {
    for (const auto& op : slice.activities) at_ns = std::min(at_ns, op.start_ns);
    for (const auto& call : slice.calls) at_ns = std::min(at_ns, call.enter_ns);
    for (const auto& marker : slice.markers) at_ns = std::min(at_ns, marker.start_ns);
    for (const auto& overhead : slice.overheads) at_ns = std::min(at_ns, overhead.start_ns);
    for (const auto& span : slice.unobserved) at_ns = std::min(at_ns, span.start_ns);
  }
  std::int64_t at_ns = std::numeric_limits<std::int64_t>::max();
};

class TimelineExport : public model::SliceVisitor, public analysis::GapSink {
 public:
  TimelineExport(const model::Recording& recording, std::int64_t origin_ns, TimelineFormat* format)
      : recording_(recording),
        tables_(recording.tables()),
        places_(tables_),
        origin_ns_(origin_ns),
        format_(*format) {}

  /// Names the frames from which the analysis reads causes.
  analysis::FrameNames* names() { return &places_; }
  void begin();
  void on_gap(const analysis::Gap& gap) override;
  void on_slice(const model::Slice& slice) override;
  const ExportCounts& counts() const { return counts_; }

 private:
  using RowKey = std::tuple<std::uint32_t, RowKind, std::uint64_t>;  // group, kind, which
  struct Family {
    explicit Family(bool can_nest) : lanes(can_nest) {}
    ExportLanes lanes;
    std::vector<std::uint32_t> rows;
  };

  std::uint32_t device_group(std::uint32_t ordinal);
  std::uint32_t host_group(model::ThreadId thread);
  std::optional<std::uint32_t> row_for(std::uint32_t group, RowKind kind, std::uint64_t which,
                                       std::int64_t start_ns, std::int64_t end_ns);
  TimelineRow new_row(std::uint32_t group, RowKind kind, std::uint64_t which, std::size_t lane);
  std::uint32_t add_name(std::string_view name);
  std::uint32_t text_name(std::string_view text);
  std::uint32_t kernel_name(model::KernelId kernel);
  std::uint32_t gap_name(const analysis::Gap& gap);
  std::uint32_t call_name(model::ApiId api);
  std::string_view place_of(const analysis::Gap& gap);
  void set_kernel_facts(const model::DeviceActivity& op);
  void set_copy_facts(const model::DeviceActivity& op);
  void add(const model::DeviceActivity& op);
  void add(const model::ApiCall& call);
  void add(const model::Marker& marker);
  bool add_slice(std::uint32_t group, RowKind kind, std::uint64_t which, TimelineSlice slice);

  const model::Recording& recording_;
  const model::Tables& tables_;
  Places places_;
  std::int64_t origin_ns_;
  TimelineFormat& format_;
  ExportCounts counts_;
  std::map<std::pair<bool, std::uint32_t>, std::uint32_t> groups_;  // (is device, ordinal or pid)
  std::map<RowKey, Family> families_;
  std::uint32_t row_count_ = 0;
  std::uint32_t name_count_ = 0;
  std::unordered_map<std::string, std::uint32_t> text_names_;
  std::unordered_map<model::KernelId, std::uint32_t> kernel_names_;
  std::unordered_map<model::ApiId, std::uint32_t> call_names_;
  std::map<std::tuple<analysis::Cause, analysis::Opener, model::ApiId>, std::uint32_t> gap_names_;
  std::unordered_map<model::KernelId, std::pair<std::string, std::string>> shapes_;
  std::unordered_map<model::StackId, std::string> stack_places_;
  std::vector<TimelineFact> facts_;
};

std::uint32_t TimelineExport::add_name(std::string_view name) {
  format_.add_name(name);
  return name_count_++;
}

std::uint32_t TimelineExport::text_name(std::string_view text) {
  const auto [at, is_new] = text_names_.emplace(text, name_count_);
  if (is_new) add_name(text);
  return at->second;
}

std::uint32_t TimelineExport::kernel_name(model::KernelId kernel) {
  const auto [at, is_new] = kernel_names_.emplace(kernel, 0);
  if (is_new) {
    const std::string name = kernel < tables_.kernels().size()
                                 ? symbols::demangle(tables_.string(tables_.kernels()[kernel].name))
                                 : std::string();
    at->second = text_name(name.empty() ? "kernel" : name);
  }
  return at->second;
}

std::uint32_t TimelineExport::device_group(std::uint32_t ordinal) {
  const auto [at, is_new] = groups_.emplace(std::make_pair(true, ordinal),
                                            static_cast<std::uint32_t>(groups_.size() + 1));
  if (!is_new) return at->second;
  TimelineGroup group;
  group.id = at->second;
  group.name = fmt::format("device {}", ordinal);
  for (const model::Device& device : tables_.devices()) {
    if (device.ordinal != ordinal || device.name == 0) continue;
    group.name += fmt::format(" ({})", tables_.string(device.name));
  }
  format_.add_group(group);
  return group.id;
}

std::uint32_t TimelineExport::host_group(model::ThreadId thread) {
  std::uint32_t pid = recording_.info().pid;
  if (thread != 0 && thread < tables_.threads().size() && tables_.threads()[thread].pid != 0) {
    pid = tables_.threads()[thread].pid;
  }
  const auto [at, is_new] =
      groups_.emplace(std::make_pair(false, pid), static_cast<std::uint32_t>(groups_.size() + 1));
  if (!is_new) return at->second;
  TimelineGroup group;
  group.id = at->second;
  group.pid = pid == 0 ? 1 : pid;
  const std::string& program = recording_.info().program;
  group.name = program.empty() ? "host" : "host: " + program.substr(program.rfind('/') + 1);
  format_.add_group(group);
  return group.id;
}

TimelineRow TimelineExport::new_row(std::uint32_t group, RowKind kind, std::uint64_t which,
                                    std::size_t lane) {
  TimelineRow row;
  row.id = ++row_count_;
  row.group = group;
  row.rank = static_cast<std::uint32_t>(kind) << 24 | (row_count_ & 0xFFFFFF);
  const auto thread_name = [&] {
    if (which == 0 || which >= tables_.threads().size()) return std::string("unknown thread");
    const model::Thread& thread = tables_.threads()[which];
    std::string name = fmt::format("thread {}", thread.tid);
    const std::string_view known = tables_.string(thread.name);
    if (known.substr(0, name.size()) == name) return std::string(known);
    if (!known.empty()) name += fmt::format(" ({})", known);
    return name;
  };
  switch (kind) {
    case RowKind::gaps:
      row.name = "idle gaps";
      break;
    case RowKind::stream:
      row.name = fmt::format("stream {}", which & 0xFFFFFFFF);
      if (which >> 32 > 1) row.name += fmt::format(" of context {}", which >> 32);
      break;
    case RowKind::steps:
      row.name = "steps";
      break;
    case RowKind::calls:
      row.name = "calls of " + thread_name();
      if (lane == 0 && which != 0 && which < tables_.threads().size()) {
        row.tid = tables_.threads()[which].tid;
      }
      break;
    case RowKind::marks:
      row.name = "marks of " + thread_name();
      break;
    case RowKind::overhead:
      row.name = "profiler and driver overhead, " + thread_name();
      break;
    case RowKind::unobserved:
      row.name = "not observed";
      break;
  }
  if (lane > 0) row.name += fmt::format(", lane {}", lane + 1);
  return row;
}

std::optional<std::uint32_t> TimelineExport::row_for(std::uint32_t group, RowKind kind,
                                                     std::uint64_t which, std::int64_t start_ns,
                                                     std::int64_t end_ns) {
  // Streams do one thing at a time; what overlaps there is to be seen, not hidden inside another.
  const bool can_nest = kind != RowKind::stream && kind != RowKind::gaps;
  Family& family = families_.try_emplace(RowKey{group, kind, which}, can_nest).first->second;
  const std::optional<std::size_t> lane = family.lanes.place(start_ns, end_ns);
  if (!lane) return std::nullopt;
  if (*lane == family.rows.size()) {
    const TimelineRow row = new_row(group, kind, which, *lane);
    family.rows.push_back(row.id);
    format_.add_row(row);
  }
  return family.rows[*lane];
}

bool TimelineExport::add_slice(std::uint32_t group, RowKind kind, std::uint64_t which,
                               TimelineSlice slice) {
  slice.start_ns -= origin_ns_;
  slice.end_ns -= origin_ns_;
  const auto row = slice.end_ns < slice.start_ns
                       ? std::nullopt
                       : row_for(group, kind, which, slice.start_ns, slice.end_ns);
  if (!row) {
    ++counts_.left_out;
    return false;
  }
  slice.row = *row;
  slice.facts = &facts_;
  format_.add_slice(slice);
  return true;
}

void TimelineExport::begin() {
  const model::RecordingInfo& info = recording_.info();
  facts_.clear();
  facts_.push_back({"producer", info.producer});
  facts_.push_back({"format", info.format});
  facts_.push_back({"source", word_of(info.source).key});
  facts_.push_back({"program", info.program});
  facts_.push_back({"host_name", info.host_name});
  facts_.push_back({"begin_in_recording_clock_ns", origin_ns_});
  if (info.realtime_offset_ns) {
    facts_.push_back({"begin_since_epoch_ns", origin_ns_ + *info.realtime_offset_ns});
  }
  facts_.push_back({"lost_records", static_cast<std::int64_t>(info.losses.total())});
  for (const std::string& warning : info.warnings) facts_.push_back({"warning", warning});
  format_.begin(facts_);
}

std::uint32_t TimelineExport::gap_name(const analysis::Gap& gap) {
  const bool is_blocked = gap.opener == analysis::Opener::blocked_in && gap.blocking;
  const auto& site = is_blocked ? gap.blocking : gap.closing;
  const model::ApiId api = site ? site->api : 0;
  const auto [at, is_new] = gap_names_.emplace(std::make_tuple(gap.cause, gap.opener, api), 0);
  if (is_new) {
    const std::string_view call = places_.api_name(api);
    at->second = text_name(fmt::format("idle: {}: {} {}", analysis::row_of(gap.cause).id,
                                       word_of(gap.opener).phrase,
                                       call.empty() ? "a call that is not recorded" : call));
  }
  return at->second;
}

std::uint32_t TimelineExport::call_name(model::ApiId api) {
  const auto [at, is_new] = call_names_.emplace(api, 0);
  if (is_new) {
    const std::string_view name = places_.api_name(api);
    at->second = text_name(name.empty() ? "unknown call" : name);
  }
  return at->second;
}

std::string_view TimelineExport::place_of(const analysis::Gap& gap) {
  const bool is_blocked = gap.opener == analysis::Opener::blocked_in && gap.blocking;
  const auto& site = is_blocked ? gap.blocking : gap.closing;
  if (!site || site->stack == 0) return {};
  const auto [at, is_new] = stack_places_.emplace(site->stack, std::string());
  if (is_new) {
    const Place place = places_.of(site->stack);
    if (!place.frames.empty()) {
      constexpr std::size_t kWidth = 400;
      at->second = describe(place.frames[place.user_frame.value_or(0)], kWidth);
    }
  }
  return at->second;
}

void TimelineExport::on_gap(const analysis::Gap& gap) {
  ++counts_.gaps;
  facts_.clear();
  facts_.push_back({"length_ns", gap.length_ns()});
  facts_.push_back({"H_nothing_queued_ns", gap.split.host_ns});
  facts_.push_back({"A_being_queued_ns", gap.split.call_ns});
  facts_.push_back({"D_queued_not_started_ns", gap.split.device_ns});
  if (gap.split.unknown_ns > 0) facts_.push_back({"split_not_known_ns", gap.split.unknown_ns});
  facts_.push_back({"cause", analysis::row_of(gap.cause).id});
  facts_.push_back({"meaning", analysis::row_of(gap.cause).meaning});
  facts_.push_back({"evidence_grade", grade_word(gap.grade)});
  facts_.push_back({"opener", word_of(gap.opener).key});
  if (gap.blocking) facts_.push_back({"blocking_call", places_.api_name(gap.blocking->api)});
  if (gap.closing) facts_.push_back({"closing_call", places_.api_name(gap.closing->api)});
  if (const std::string_view place = place_of(gap); !place.empty()) {
    facts_.push_back({"place", place});
  }
  if (gap.saving_bound_ns) facts_.push_back({"saving_at_most_ns", *gap.saving_bound_ns});
  TimelineSlice slice;
  slice.name = gap_name(gap);
  slice.category = "idle";
  slice.start_ns = gap.start_ns;
  slice.end_ns = gap.end_ns;
  const std::uint32_t group = device_group(gap.device);
  if (!add_slice(group, RowKind::gaps, 0, slice)) return;
  // The parts follow each other in this order by definition, so their lengths place them.
  const std::pair<std::string_view, std::int64_t> parts[] = {
      {"H nothing queued", gap.split.host_ns},
      {"A being queued", gap.split.call_ns},
      {"D queued, not started", gap.split.device_ns}};
  const std::uint32_t row = families_.at(RowKey{group, RowKind::gaps, 0}).rows[0];
  std::int64_t from_ns = gap.start_ns - origin_ns_;
  for (const auto& [name, length_ns] : parts) {
    if (length_ns == 0) continue;
    TimelineSlice part;
    part.row = row;
    part.name = text_name(name);
    part.category = "idle";
    part.start_ns = from_ns;
    part.end_ns = from_ns += length_ns;
    format_.add_slice(part);
  }
}

void TimelineExport::set_kernel_facts(const model::DeviceActivity& op) {
  if (op.kernel == 0 || op.kernel >= tables_.kernels().size()) return;
  const model::Kernel& kernel = tables_.kernels()[op.kernel];
  const auto [at, is_new] = shapes_.emplace(op.kernel, std::make_pair("", ""));
  if (is_new && kernel.grid[0] != 0) {
    at->second.first = fmt::format("{}", fmt::join(kernel.grid, " x "));
    at->second.second = fmt::format("{}", fmt::join(kernel.block, " x "));
  }
  if (!at->second.first.empty()) {
    facts_.push_back({"grid_blocks", std::string_view(at->second.first)});
    facts_.push_back({"block_threads", std::string_view(at->second.second)});
  }
  if (kernel.registers_per_thread != 0) {
    facts_.push_back({"registers_per_thread", std::int64_t{kernel.registers_per_thread}});
  }
  const std::int64_t shared =
      std::int64_t{kernel.static_shared_bytes} + std::int64_t{kernel.dynamic_shared_bytes};
  if (shared != 0) facts_.push_back({"shared_memory_bytes", shared});
}

void TimelineExport::set_copy_facts(const model::DeviceActivity& op) {
  facts_.push_back({"bytes", static_cast<std::int64_t>(op.bytes)});
  if (op.kind != model::ActivityKind::memcpy) return;
  facts_.push_back({"direction", word(kCopyKinds, op.copy)});
  facts_.push_back({"from_memory", word(kMemoryKinds, op.source)});
  facts_.push_back({"to_memory", word(kMemoryKinds, op.destination)});
}

void TimelineExport::add(const model::DeviceActivity& op) {
  facts_.clear();
  TimelineSlice slice;
  switch (op.kind) {
    case model::ActivityKind::kernel:
      slice.category = "kernel";
      slice.name = kernel_name(op.kernel);
      set_kernel_facts(op);
      break;
    case model::ActivityKind::memcpy:
      slice.category = "copy";
      slice.name = text_name(op.name != 0 ? std::string(tables_.string(op.name))
                                          : fmt::format("copy {}", word(kCopyKinds, op.copy)));
      set_copy_facts(op);
      break;
    case model::ActivityKind::memset:
      slice.category = "set";
      slice.name = text_name(op.name != 0 ? tables_.string(op.name) : "set");
      set_copy_facts(op);
      break;
    case model::ActivityKind::graph:
      slice.category = "graph";
      slice.name = text_name("graph");
      break;
    case model::ActivityKind::unknown:
      ++counts_.left_out;
      return;
  }
  if (op.correlation != 0) facts_.push_back({"correlation", std::int64_t{op.correlation}});
  if (op.graph != 0) facts_.push_back({"graph", std::int64_t{op.graph}});
  slice.start_ns = op.start_ns;
  slice.end_ns = op.end_ns;
  slice.correlation = op.correlation;
  if (add_slice(device_group(op.device), RowKind::stream,
                std::uint64_t{op.context} << 32 | op.stream, slice)) {
    ++counts_.activities;
  }
}

void TimelineExport::add(const model::ApiCall& call) {
  facts_.clear();
  if (call.correlation != 0) facts_.push_back({"correlation", std::int64_t{call.correlation}});
  if (call.result != 0) facts_.push_back({"result", std::int64_t{call.result}});
  TimelineSlice slice;
  slice.name = call_name(call.api);
  slice.category = "call";
  slice.start_ns = call.enter_ns;
  slice.end_ns = call.exit_ns;
  slice.correlation = model::enqueues_work(call.role) ? call.correlation : 0;
  slice.is_call = true;
  if (add_slice(host_group(call.thread), RowKind::calls, call.thread, slice)) ++counts_.calls;
}

void TimelineExport::add(const model::Marker& marker) {
  facts_.clear();
  const bool is_step = marker.kind == model::Marker::Kind::step;
  TimelineSlice slice;
  slice.name = text_name(marker.name != 0 ? tables_.string(marker.name) : "mark");
  slice.category = is_step ? "step" : "mark";
  slice.start_ns = marker.start_ns;
  slice.end_ns = marker.end_ns;
  if (add_slice(host_group(marker.thread), is_step ? RowKind::steps : RowKind::marks,
                is_step ? 0 : marker.thread, slice)) {
    ++counts_.markers;
  }
}

void TimelineExport::on_slice(const model::Slice& slice) {
  for (const model::DeviceActivity& op : slice.activities) add(op);
  for (const model::ApiCall& call : slice.calls) add(call);
  for (const model::Marker& marker : slice.markers) add(marker);
  facts_.clear();
  for (const model::Overhead& overhead : slice.overheads) {
    TimelineSlice shown;
    shown.name = text_name(tables_.string(overhead.name));
    shown.category = overhead.is_profiler ? "profiler" : "driver";
    shown.start_ns = overhead.start_ns;
    shown.end_ns = overhead.end_ns;
    add_slice(host_group(overhead.thread), RowKind::overhead, overhead.thread, shown);
  }
  for (const model::Unobserved& span : slice.unobserved) {
    TimelineSlice shown;
    shown.name = text_name(fmt::format("not observed: {}", tables_.string(span.reason)));
    shown.category = "not observed";
    shown.start_ns = span.start_ns;
    shown.end_ns = span.end_ns;
    add_slice(host_group(0), RowKind::unobserved, 0, shown);
  }
}

}  // namespace

base::Status export_timeline(const model::Recording& recording, TimelineFormat* format,
                             analysis::Idleness* found, ExportCounts* counts) {
  // Viewers want times from 0, and JSON's doubles have no room for nanoseconds since 1970.
  Earliest earliest;
  base::Status status = recording.visit(earliest);
  if (!status.ok()) return status;
  std::int64_t origin_ns = earliest.at_ns;
  if (origin_ns == std::numeric_limits<std::int64_t>::max()) origin_ns = 0;
  if (const auto& start_ns = recording.info().recording_start_ns) {
    origin_ns = std::min(origin_ns, *start_ns);
  }
  TimelineExport timeline(recording, origin_ns, format);
  timeline.begin();
  analysis::Options options;
  options.largest_gaps = 0;
  options.gaps = &timeline;
  options.names = timeline.names();
  status = analysis::analyze(recording, options, found);
  if (status.ok()) status = recording.visit(timeline);
  format->end();
  *counts = timeline.counts();
  return status;
}

}  // namespace gpuidle::report
