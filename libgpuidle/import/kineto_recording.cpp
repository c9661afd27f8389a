// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/kineto_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "libgpuidle/import/decimal_time.h"
#include "libgpuidle/import/json_string.h"
#include "libgpuidle/model/cuda_api.h"

namespace gpuidle::import {
namespace {

using model::ActivityKind;
using model::CopyKind;
using model::DeviceActivity;
using model::MemoryKind;

// The integer at the front of a token, modulo 2^64 (ids may exceed int64, or be negative).
std::optional<std::uint64_t> integer_of(std::string_view token) {
  const bool is_negative = !token.empty() && token[0] == '-';
  if (is_negative) token.remove_prefix(1);
  if (token.empty() || token[0] < '0' || token[0] > '9') return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : token) {
    if (c < '0' || c > '9') break;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return is_negative ? 0 - value : value;
}

std::uint32_t small_integer_of(std::string_view token) {
  return static_cast<std::uint32_t>(integer_of(token).value_or(0));
}

// "[4, 2, 1], ..." -> {4, 2, 1}; all 0 if it is not three numbers.
std::array<std::uint32_t, 3> dimensions_of(std::string_view text) {
  std::array<std::uint32_t, 3> dimensions{};
  if (text.empty() || text[0] != '[') return dimensions;
  std::size_t at = 1;
  for (std::uint32_t& dimension : dimensions) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
    const auto value = integer_of(text.substr(std::min(at, text.size())));
    if (!value) return {};
    dimension = static_cast<std::uint32_t>(*value);
    at = text.find_first_of(",]", at);
    if (at == std::string_view::npos) return {};
    ++at;
  }
  return dimensions;
}

struct CopyName {
  std::string_view text;
  CopyKind kind;
};
constexpr CopyName kCopyNames[] = {
    {"HtoD", CopyKind::host_to_device},
    {"DtoH", CopyKind::device_to_host},
    {"DtoD", CopyKind::device_to_device},
    {"HtoH", CopyKind::host_to_host},
    {"PtoP", CopyKind::peer},
    {"HtoA", CopyKind::host_to_device},
    {"AtoH", CopyKind::device_to_host},
    {"AtoA", CopyKind::device_to_device},
    {"AtoD", CopyKind::device_to_device},
    {"DtoA", CopyKind::device_to_device},
};

// "Host" (ROCm) says nothing about pinned or pageable and stays unknown.
MemoryKind memory_of(std::string_view text) {
  if (text == "Pageable") return MemoryKind::pageable;
  if (text == "Pinned") return MemoryKind::pinned;
  if (text == "Device") return MemoryKind::device;
  if (text == "Array") return MemoryKind::array;
  if (text == "Managed") return MemoryKind::managed;
  if (text == "Device Static") return MemoryKind::device_static;
  if (text == "Managed Static") return MemoryKind::managed_static;
  return MemoryKind::unknown;
}

// "Memcpy HtoD (Pageable -> Device)", "Memset (Device)".
void read_copy_name(std::string_view name, DeviceActivity& activity) {
  const std::size_t open = name.find('('), close = name.rfind(')');
  for (const CopyName& known : kCopyNames) {
    if (activity.kind == ActivityKind::memcpy &&
        name.substr(0, open).find(known.text) != std::string_view::npos) {
      activity.copy = known.kind;
      break;
    }
  }
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return;
  const std::string_view memories = name.substr(open + 1, close - open - 1);
  constexpr std::string_view kArrow = " -> ";
  const std::size_t arrow = memories.find(kArrow);
  if (arrow == std::string_view::npos) {
    activity.destination = memory_of(memories);
  } else {
    activity.source = memory_of(memories.substr(0, arrow));
    activity.destination = memory_of(memories.substr(arrow + kArrow.size()));
  }
}

// Bytes as written, up to a pebibyte either way: no device has more, and no sum can overflow soon.
std::optional<std::int64_t> memory_bytes_of(std::string_view token) {
  constexpr std::size_t kMostDigits = 16;
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50U;
  const bool is_negative = !token.empty() && token[0] == '-';
  if (is_negative) token.remove_prefix(1);
  if (token.empty() || token.size() > kMostDigits ||
      token.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::uint64_t value = integer_of(token).value_or(0);
  if (value > kMostBytes) return std::nullopt;
  return is_negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

bool is_step(std::string_view name) { return name.substr(0, 13) == "ProfilerStep#"; }

// The driver's own costs (lazy loading of functions, a full command buffer, compilation) would be
// there without a profiler.
bool is_profiler_overhead(std::string_view name) {
  constexpr std::string_view kSigns[] = {"Buffer Request", "Buffer Flush", "Instrumentation",
                                         "CUPTI",          "Resource",     "Activity Init"};
  return std::any_of(std::begin(kSigns), std::end(kSigns), [name](std::string_view sign) {
    return name.find(sign) != std::string_view::npos;
  });
}

}  // namespace

KinetoRecordingBuilder::KinetoRecordingBuilder()
    : recording_(std::make_unique<model::MemoryRecording>()) {}

void KinetoRecordingBuilder::on_row(const KinetoRow& row) {
  if (row.kind == RowKind::ignored) return;
  if (row.kind == RowKind::metadata) return read_metadata(row);
  if (row.kind == RowKind::memory_event) return add_memory_event(row);
  if (row.kind == RowKind::unknown) {
    ++unknown_categories_[std::string(row.category)];
    return;
  }
  has_known_rows_ = true;
  Interval interval;
  if (!read_interval(row, interval)) return;
  switch (row.kind) {
    case RowKind::kernel:
    case RowKind::memcpy:
    case RowKind::memset:
      return add_activity(row, interval);
    case RowKind::runtime_call:
    case RowKind::driver_call:
      return add_call(row, interval);
    case RowKind::operator_call:
    case RowKind::annotation:
    case RowKind::python:
      return add_span(row, interval);
    case RowKind::overhead:
      return add_overhead(row, interval);
    default:
      window_.start_ns =
          has_window_ ? std::min(window_.start_ns, interval.start_ns) : interval.start_ns;
      window_.end_ns = has_window_ ? std::max(window_.end_ns, interval.end_ns) : interval.end_ns;
      has_window_ = true;
  }
}

bool KinetoRecordingBuilder::read_interval(const KinetoRow& row, Interval& interval) {
  const auto start_ns = nanoseconds_of_microseconds(row.ts);
  const auto duration_ns = nanoseconds_of_microseconds(row.dur);
  if (!start_ns || !duration_ns ||
      __builtin_add_overflow(*start_ns, *duration_ns, &interval.end_ns)) {
    ++bad_rows_;
    return false;
  }
  if (*duration_ns < 0) {
    ++reversed_rows_;
    return false;
  }
  if (*start_ns == 0 && *duration_ns == 0) {  // what lost records look like (pytorch/kineto#109)
    ++zero_rows_;
    return false;
  }
  interval.start_ns = *start_ns;
  return true;
}

void KinetoRecordingBuilder::add_activity(const KinetoRow& row, const Interval& interval) {
  DeviceActivity activity;
  activity.start_ns = interval.start_ns;
  activity.end_ns = interval.end_ns;
  activity.device = id_of(row.device.empty() ? row.pid : row.device);
  activity.stream = id_of(row.stream.empty() ? row.tid : row.stream);
  activity.context = small_integer_of(row.context);
  activity.correlation = small_integer_of(row.correlation);
  activity.bytes = integer_of(row.bytes).value_or(0);
  activity.graph = small_integer_of(row.graph);
  if (row.kind == RowKind::kernel) {
    activity.kind = ActivityKind::kernel;
    model::Kernel kernel;
    kernel.name = intern(row.name);
    kernel.grid = dimensions_of(row.grid);
    kernel.block = dimensions_of(row.block);
    kernel.registers_per_thread = small_integer_of(row.registers);
    kernel.static_shared_bytes = small_integer_of(row.shared_memory);  // the file has only the sum
    activity.kernel = recording_->mutable_tables().intern(kernel);
  } else {
    activity.kind = row.kind == RowKind::memcpy ? ActivityKind::memcpy : ActivityKind::memset;
    activity.name = intern(row.name);
    read_copy_name(row.name, activity);
  }
  recording_->records.activities.push_back(activity);
}

void KinetoRecordingBuilder::add_call(const KinetoRow& row, const Interval& interval) {
  HostCall call;
  call.record.enter_ns = interval.start_ns;
  call.record.exit_ns = interval.end_ns;
  call.record.correlation = small_integer_of(row.correlation);
  call.record.role = model::role_of(row.name);
  call.name = row.name;
  call.thread = thread_of(row);
  call.is_driver = row.kind == RowKind::driver_call;
  calls_.push_back(call);
}

void KinetoRecordingBuilder::add_span(const KinetoRow& row, const Interval& interval) {
  HostSpan span;
  span.start_ns = interval.start_ns;
  span.end_ns = interval.end_ns;
  span.name = row.name;
  span.call_stack = row.call_stack;
  span.thread = thread_of(row);
  span.is_python = row.kind == RowKind::python;
  const bool is_step_row = is_step(row.name);
  // Profilers up to 2022 write the loaders' own ranges among the operators.
  const bool is_loader = row.name.rfind("enumerate(", 0) == 0;
  if (row.kind == RowKind::annotation || is_step_row || is_loader) {
    model::Marker marker;
    marker.start_ns = interval.start_ns;
    marker.end_ns = interval.end_ns;
    marker.name = intern(row.name);
    marker.thread = span.thread;
    marker.kind = is_step_row ? model::Marker::Kind::step : model::Marker::Kind::range;
    recording_->records.markers.push_back(marker);
  }
  // A step's number would make every stack of every step another one.
  if (!is_step_row) spans_.push_back(span);
}

void KinetoRecordingBuilder::add_overhead(const KinetoRow& row, const Interval& interval) {
  model::Overhead overhead;
  overhead.start_ns = interval.start_ns;
  overhead.end_ns = interval.end_ns;
  overhead.name = intern(row.name);
  overhead.is_profiler = is_profiler_overhead(row.name);
  // Kineto puts these rows on a lane of their own (pid -1): the thread is not known.
  recording_->records.overheads.push_back(overhead);
}

void KinetoRecordingBuilder::add_memory_event(const KinetoRow& row) {
  // c10::DeviceType: CUDA and HIP; the allocators of the host and of other devices are no matter.
  if (row.device_type != "1" && row.device_type != "6") return;
  const auto at_ns = nanoseconds_of_microseconds(row.ts);
  const auto bytes = memory_bytes_of(row.memory_bytes);
  const auto device = memory_bytes_of(row.device_id);
  if (!at_ns || !bytes || !device || *device < 0 || *device > INT32_MAX) {
    ++bad_memory_events_;
    return;
  }
  model::MemoryEvent event;
  event.start_ns = *at_ns;
  event.bytes = *bytes;
  event.device = static_cast<std::uint32_t>(*device);
  const auto allocated = memory_bytes_of(row.total_allocated);
  const auto reserved = memory_bytes_of(row.total_reserved);
  if (allocated && reserved && *allocated >= 0 && *reserved >= 0) {
    event.has_totals = true;
    event.allocated_bytes = static_cast<std::uint64_t>(*allocated);
    event.reserved_bytes = static_cast<std::uint64_t>(*reserved);
  }
  recording_->records.memory.push_back(event);
}

void KinetoRecordingBuilder::read_metadata(const KinetoRow& row) {
  if (row.name != "thread_name" || row.label.empty()) return;
  threads_[thread_of(row)].name = row.label;
}

std::uint32_t KinetoRecordingBuilder::thread_of(const KinetoRow& row) {
  const std::uint32_t pid = id_of(row.pid), tid = id_of(row.tid);
  const std::uint64_t key = (std::uint64_t{pid} << 32) | tid;
  const auto [it, is_new] = thread_index_.emplace(key, static_cast<std::uint32_t>(threads_.size()));
  if (is_new) threads_.push_back({pid, tid, {}});
  return it->second;
}

// Ids are numbers, or texts that end in one ("stream 7"), or any text, which then gets a number
// that no real id of a device or stream has.
std::uint32_t KinetoRecordingBuilder::id_of(std::string_view token) {
  if (const auto value = integer_of(token)) return static_cast<std::uint32_t>(*value);
  const std::size_t last_other = token.find_last_not_of("0123456789");
  if (last_other != std::string_view::npos && last_other + 1 < token.size()) {
    return small_integer_of(token.substr(last_other + 1));
  }
  if (token.empty()) return 0;
  constexpr std::uint32_t kFirstNamedId = 0x80000000U;
  const auto next = kFirstNamedId + static_cast<std::uint32_t>(named_ids_.size());
  return named_ids_.emplace(token, next).first->second;
}

model::StringId KinetoRecordingBuilder::intern(std::string_view token) {
  model::Tables& tables = recording_->mutable_tables();
  const bool is_plain = token.find('\\') == std::string_view::npos;
  return is_plain ? tables.intern(token) : tables.intern(unescaped(token));
}

}  // namespace gpuidle::import
