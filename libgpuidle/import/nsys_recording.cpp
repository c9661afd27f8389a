// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/nsys_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libgpuidle/import/nsys_ids.h"
#include "libgpuidle/model/cuda_api.h"

namespace gpuidle::import {
namespace {

using base::Status;
using model::ActivityKind;
using model::CopyKind;
using model::DeviceActivity;
using model::LossReason;
using model::MemoryKind;

// 73 years on either side of the session's start: sums of such times cannot overflow.
constexpr std::int64_t kFarthestTime_ns = std::int64_t{1} << 61;

// ENUM_CUDA_MEMCPY_OPER, by number; the last three are migrations of unified memory.
constexpr CopyKind kCopyKinds[] = {
    CopyKind::unknown,
    CopyKind::host_to_device,
    CopyKind::device_to_host,
    CopyKind::host_to_device,
    CopyKind::device_to_host,
    CopyKind::device_to_device,
    CopyKind::device_to_device,
    CopyKind::device_to_device,
    CopyKind::device_to_device,
    CopyKind::host_to_host,
    CopyKind::peer,
    CopyKind::host_to_device,
    CopyKind::device_to_host,
    CopyKind::device_to_device,
};

// ENUM_CUDA_MEM_KIND, by number; not CUPTI's numbers.
constexpr MemoryKind kMemoryKinds[] = {
    MemoryKind::pageable, MemoryKind::pinned,        MemoryKind::device,         MemoryKind::array,
    MemoryKind::managed,  MemoryKind::device_static, MemoryKind::managed_static,
};

// ENUM_NSYS_EVENT_CLASS, of calls.
constexpr std::int64_t kDriverCall = 1;
constexpr std::int64_t kBacktrace = 67;

// ENUM_NSYS_EVENT_TYPE, of annotations; the second of each pair is of the older library.
constexpr std::int64_t kMark = 34, kPushPop = 59, kStartEnd = 60;
constexpr std::int64_t kOldMark = 65, kOldPushPop = 70, kOldStartEnd = 71;

template <typename Value, std::size_t kCount>
Value value_of(const Value (&values)[kCount], std::optional<std::int64_t> number) {
  const bool is_known = number && *number >= 0 && *number < static_cast<std::int64_t>(kCount);
  return is_known ? values[*number] : Value::unknown;
}

// Costs of the driver that would be there without a profiler; older exports have no table of their
// own for them.
bool is_driver_overhead(std::string_view name) {
  constexpr std::string_view kSigns[] = {"Lazy Function Loading", "Module Loading",
                                         "Command Buffer Full", "Driver Compiler"};
  return std::any_of(std::begin(kSigns), std::end(kSigns), [name](std::string_view sign) {
    return name.find(sign) != std::string_view::npos;
  });
}

// PyTorch appends a number to the operator's name ("aten::add, seq = 7, op_id = 9"), which would
// make another stack of every call.
std::string_view without_instance(std::string_view name) {
  for (const std::string_view sign : {", seq = ", ", op_id = ", ", sizes = "}) {
    name = name.substr(0, name.find(sign));
  }
  return name;
}

}  // namespace

NsysRecordingBuilder::NsysRecordingBuilder(const SqliteFile& file)
    : file_(file), recording_(std::make_unique<model::MemoryRecording>()) {}

Status NsysRecordingBuilder::read() {
  Status status = read_facts();
  if (status.ok()) status = read_device_tables();
  if (status.ok()) status = read_host_tables();
  return status;
}

// A table without times, or of device work without a device, is one that this version misreads.
Status NsysRecordingBuilder::scan_events(const char* table, const std::vector<const char*>& columns,
                                         Reader reader) {
  const bool is_device_work = columns.size() > 2 && std::string_view(columns[2]) == "deviceId";
  for (std::size_t i = 0; i < (is_device_work ? 3U : 2U) && file_.has(table); ++i) {
    if (file_.has(table, columns[i])) continue;
    warnings_.push_back(
        fmt::format("table {} left out: it has no column \"{}\", this version does not know its "
                    "layout",
                    table, columns[i]));
    lose(LossReason::unknown_record);
    return {};
  }
  return file_.scan(table, columns, [&](const SqliteRow& row) { (this->*reader)(row); });
}

// --- device work; the first seven columns are those that add_activity() reads
// -----------------------

Status NsysRecordingBuilder::read_device_tables() {
  using Builder = NsysRecordingBuilder;
  Status status = scan_events("CUPTI_ACTIVITY_KIND_KERNEL",
                              {"start",
                               "end",
                               "deviceId",
                               "contextId",
                               "streamId",
                               "correlationId",
                               "globalPid",
                               "mangledName",
                               "demangledName",
                               "shortName",
                               "gridX",
                               "gridY",
                               "gridZ",
                               "blockX",
                               "blockY",
                               "blockZ",
                               "registersPerThread",
                               "staticSharedMemory",
                               "dynamicSharedMemory",
                               "graphId",
                               "graphNodeId"},
                              &Builder::add_kernel);
  if (!status.ok()) return status;
  status = scan_events(
      "CUPTI_ACTIVITY_KIND_MEMCPY",
      {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes",
       "copyKind", "srcKind", "dstKind", "graphId", "graphNodeId"},
      &Builder::add_copy);
  if (!status.ok()) return status;
  status = scan_events("CUPTI_ACTIVITY_KIND_MEMSET",
                       {"start", "end", "deviceId", "contextId", "streamId", "correlationId",
                        "globalPid", "bytes", "memKind", "graphId", "graphNodeId"},
                       &Builder::add_set);
  if (!status.ok()) return status;
  return scan_events("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                     {"start", "end", "deviceId", "contextId", "streamId", "correlationId",
                      "globalPid", "graphId", "graphExecId"},
                     &Builder::add_graph);
}

bool NsysRecordingBuilder::read_interval(const SqliteRow& row, Interval& interval) {
  const auto start_ns = row.integer(0), end_ns = row.integer(1);
  if (!start_ns || !end_ns) {
    ++bad_times_;
  } else if (*start_ns == 0 && *end_ns == 0) {
    ++zero_times_;
  } else if (*end_ns < *start_ns) {
    ++reversed_;
  } else if (*start_ns < -kFarthestTime_ns || *end_ns > kFarthestTime_ns) {
    ++far_times_;
  } else {
    interval = {*start_ns, *end_ns};
    return true;
  }
  return false;
}

DeviceActivity* NsysRecordingBuilder::add_activity(const SqliteRow& row, ActivityKind kind) {
  Interval interval;
  if (!read_interval(row, interval)) return nullptr;
  const auto device = row.integer(2);
  if (!device || *device < 0 || *device > static_cast<std::int64_t>(UINT32_MAX)) {
    ++bad_devices_;
    return nullptr;
  }
  DeviceActivity activity;
  activity.kind = kind;
  activity.start_ns = interval.start_ns;
  activity.end_ns = interval.end_ns;
  activity.device = static_cast<std::uint32_t>(*device);
  activity.context = small_integer_of(row.integer(3));
  activity.stream = small_integer_of(row.integer(4));
  activity.correlation = small_integer_of(row.integer(5));
  activity_process_.push_back(process_of(row.integer(6).value_or(0)));
  recording_->records.activities.push_back(activity);
  return &recording_->records.activities.back();
}

namespace {

// Exports before 3.24 name only the node, whose upper half is the graph's number.
std::uint32_t graph_of(std::optional<std::int64_t> graph, std::optional<std::int64_t> node) {
  if (graph && *graph > 0) return small_integer_of(graph);
  if (!node || *node <= 0) return 0;
  const std::uint32_t upper = static_cast<std::uint32_t>(*node >> 32);
  return upper != 0 ? upper : static_cast<std::uint32_t>(*node);
}

}  // namespace

void NsysRecordingBuilder::add_kernel(const SqliteRow& row) {
  DeviceActivity* activity = add_activity(row, ActivityKind::kernel);
  if (activity == nullptr) return;
  model::Kernel kernel;
  for (int column = 7; column < 10 && kernel.name == 0; ++column) {
    kernel.name = intern(row.integer(column));
  }
  for (int axis = 0; axis < 3; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    kernel.grid[at] = small_integer_of(row.integer(10 + axis));
    kernel.block[at] = small_integer_of(row.integer(13 + axis));
  }
  kernel.registers_per_thread = small_integer_of(row.integer(16));
  kernel.static_shared_bytes = small_integer_of(row.integer(17));
  kernel.dynamic_shared_bytes = small_integer_of(row.integer(18));
  activity->kernel = recording_->mutable_tables().intern(kernel);
  activity->graph = graph_of(row.integer(19), row.integer(20));
}

void NsysRecordingBuilder::add_copy(const SqliteRow& row) {
  DeviceActivity* activity = add_activity(row, ActivityKind::memcpy);
  if (activity == nullptr) return;
  activity->bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(row.integer(7).value_or(0), 0));
  activity->copy = value_of(kCopyKinds, row.integer(8));
  activity->source = value_of(kMemoryKinds, row.integer(9));
  activity->destination = value_of(kMemoryKinds, row.integer(10));
  activity->graph = graph_of(row.integer(11), row.integer(12));
}

void NsysRecordingBuilder::add_set(const SqliteRow& row) {
  DeviceActivity* activity = add_activity(row, ActivityKind::memset);
  if (activity == nullptr) return;
  activity->bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(row.integer(7).value_or(0), 0));
  activity->destination = value_of(kMemoryKinds, row.integer(8));
  activity->graph = graph_of(row.integer(9), row.integer(10));
}

void NsysRecordingBuilder::add_graph(const SqliteRow& row) {
  DeviceActivity* activity = add_activity(row, ActivityKind::graph);
  if (activity == nullptr) return;
  activity->graph = graph_of(row.integer(7), row.integer(8));
}

// --- the host's side
// --------------------------------------------------------------------------------

// CUPTI_ACTIVITY_KIND_SYNCHRONIZATION is not read: its syncType means different things from version
// to version, and the call it belongs to says what the host waited for.
Status NsysRecordingBuilder::read_host_tables() {
  using Builder = NsysRecordingBuilder;
  Status status = scan_events(
      "CUPTI_ACTIVITY_KIND_RUNTIME",
      {"start", "end", "eventClass", "globalTid", "correlationId", "nameId", "name", "returnValue"},
      &Builder::add_call);
  if (!status.ok()) return status;
  status = scan_events("NVTX_EVENTS", {"start", "end", "eventType", "globalTid", "text", "textId"},
                       &Builder::add_annotation);
  if (!status.ok()) return status;
  status = scan_events("PROFILER_OVERHEAD", {"start", "end", "globalTid", "nameId"},
                       &Builder::add_profiler_overhead);
  if (!status.ok()) return status;
  return scan_events("CUPTI_ACTIVITY_KIND_OVERHEAD",
                     {"start", "end", "globalTid", "nameId", "overheadType"},
                     &Builder::add_driver_overhead);
}

void NsysRecordingBuilder::add_call(const SqliteRow& row) {
  // Where backtraces were taken, 2.x lists each call once more, around itself.
  if (row.integer(2) == kBacktrace) return;
  Interval interval;
  if (!read_interval(row, interval)) return;
  std::string_view name = string_of(row.integer(5));
  if (name.empty()) name = keep(row.text(6));
  const auto global_tid = row.integer(3);
  HostCall call;
  call.record.enter_ns = interval.start_ns;
  call.record.exit_ns = interval.end_ns;
  call.record.correlation = small_integer_of(row.integer(4));
  call.record.result = static_cast<std::int32_t>(small_integer_of(row.integer(7)));
  call.record.role = model::role_of(name);
  call.name = name;
  call.thread = thread_of(global_tid);
  call.is_driver = row.integer(2) == kDriverCall;
  calls_.push_back(call);
  call_process_.push_back(process_of(global_pid_of(global_tid.value_or(0))));
}

void NsysRecordingBuilder::add_annotation(const SqliteRow& row) {
  const std::int64_t type = row.integer(2).value_or(0);
  const bool is_mark = type == kMark || type == kOldMark;
  const bool is_nested = type == kPushPop || type == kOldPushPop;
  if (!is_mark && !is_nested && type != kStartEnd && type != kOldStartEnd) return;
  Interval interval;
  if (row.integer(1) || !row.integer(0)) {
    if (!read_interval(row, interval)) return;
  } else {
    // A mark, or a range that was open when the recording ended.
    const std::int64_t start_ns = *row.integer(0);
    if (start_ns < -kFarthestTime_ns || start_ns > kFarthestTime_ns) {
      ++far_times_;
      return;
    }
    const std::int64_t last_ns = std::min(duration_ns_.value_or(start_ns), kFarthestTime_ns);
    interval = {start_ns, is_mark ? start_ns : std::max(start_ns, last_ns)};
    if (!is_mark) ++open_annotations_;
  }
  std::string_view name = row.text(4);
  if (name.empty()) name = string_of(row.integer(5));
  model::Marker marker;
  marker.start_ns = interval.start_ns;
  marker.end_ns = is_mark ? interval.start_ns : interval.end_ns;
  marker.name = recording_->mutable_tables().intern(name);
  marker.thread = thread_of(row.integer(3));
  marker.kind = is_mark ? model::Marker::Kind::instant : model::Marker::Kind::range;
  recording_->records.markers.push_back(marker);
  if (is_nested) add_span(interval, name, marker.thread);
}

// Ranges around a call stand in for its stack, which an export without backtraces does not have.
void NsysRecordingBuilder::add_span(const Interval& interval, std::string_view name,
                                    model::ThreadId thread) {
  name = without_instance(name);
  HostSpan span;
  span.start_ns = interval.start_ns;
  span.end_ns = interval.end_ns;
  span.thread = thread;
  if (name.find('\\') == std::string_view::npos) {
    span.name = keep(name);
  } else {
    std::string token;
    for (const char c : name) token.append(c == '\\' ? 2 : 1, c);
    span.name = keep(token);
  }
  spans_.push_back(span);
}

void NsysRecordingBuilder::add_profiler_overhead(const SqliteRow& row) {
  add_overhead(row, !is_driver_overhead(string_of(row.integer(3))));
}

void NsysRecordingBuilder::add_driver_overhead(const SqliteRow& row) {
  // ENUM_CUPTI_OVERHEAD_TYPE: 3 to 5 are CUPTI's own.
  const std::int64_t type = row.integer(4).value_or(0);
  add_overhead(row, type >= 3 && type <= 5);
}

void NsysRecordingBuilder::add_overhead(const SqliteRow& row, bool is_profiler) {
  Interval interval;
  if (!read_interval(row, interval)) return;
  model::Overhead overhead;
  overhead.start_ns = interval.start_ns;
  overhead.end_ns = interval.end_ns;
  overhead.thread = thread_of(row.integer(2));
  overhead.name = intern(row.integer(3));
  overhead.is_profiler = is_profiler;
  recording_->records.overheads.push_back(overhead);
}

// --- ids
// --------------------------------------------------------------------------------------------

std::string_view NsysRecordingBuilder::string_of(std::optional<std::int64_t> string_id) const {
  if (!string_id) return {};
  const auto found = strings_.find(*string_id);
  return found == strings_.end() ? std::string_view() : found->second;
}

model::StringId NsysRecordingBuilder::intern(std::optional<std::int64_t> string_id) {
  if (!string_id) return 0;
  const auto [it, is_new] = interned_.emplace(*string_id, 0);
  if (is_new) it->second = recording_->mutable_tables().intern(string_of(string_id));
  return it->second;
}

std::string_view NsysRecordingBuilder::keep(std::string_view text) {
  return *kept_texts_.emplace(text).first;
}

model::ThreadId NsysRecordingBuilder::thread_of(std::optional<std::int64_t> global_tid) {
  if (!global_tid || *global_tid == 0) return 0;
  const auto name = thread_names_.find(*global_tid);
  model::Tables& tables = recording_->mutable_tables();
  return tables.intern_thread(
      pid_of(*global_tid), tid_of(*global_tid),
      name == thread_names_.end() ? std::string_view() : tables.string(name->second));
}

std::uint32_t NsysRecordingBuilder::process_of(std::int64_t global_pid) {
  const auto next = static_cast<std::uint32_t>(processes_.size());
  const auto [it, is_new] = process_index_.emplace(global_pid, next);
  if (is_new) processes_.push_back(global_pid);
  return it->second;
}

void NsysRecordingBuilder::lose(LossReason reason, std::uint64_t count) {
  recording_->mutable_info().losses.count[static_cast<std::size_t>(reason)] += count;
}

}  // namespace gpuidle::import
