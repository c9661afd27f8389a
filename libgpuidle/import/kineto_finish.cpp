// SPDX-License-Identifier: Apache-2.0
//
// The second half of KinetoRecordingBuilder: what can only be said once all rows have been seen.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "libgpuidle/import/json_string.h"
#include "libgpuidle/import/kineto_recording.h"

namespace gpuidle::import {
namespace {

using model::LossReason;

// Times above this are nanoseconds since 1970 (it is a day in 2001); times since some start of the
// profiler stay below it for 31 years.
constexpr std::int64_t kLeastEpochTime_ns = 1'000'000'000'000'000'000;

std::optional<std::int64_t> signed_integer_of(std::string_view token) {
  const bool is_negative = !token.empty() && token[0] == '-';
  if (is_negative) token.remove_prefix(1);
  if (token.empty() || token.size() > 18 + 1) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : token) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  const auto magnitude = static_cast<std::int64_t>(value);
  return is_negative ? -magnitude : magnitude;
}

std::optional<std::int32_t> small_integer_of(std::string_view token) {
  const auto value = signed_integer_of(token);
  if (!value || *value < INT32_MIN || *value > INT32_MAX) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

std::string producer_of(const KinetoHeader& header) {
  std::string parts;
  const auto add = [&parts](std::string_view label, std::string_view version) {
    if (version.empty()) return;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", label, version);
  };
  add("CUPTI", header.cupti_version);
  add("CUDA runtime", header.cuda_runtime_version);
  add("roctracer", header.roctracer_version);
  add("HIP runtime", header.hip_runtime_version);
  return parts.empty() ? "Kineto" : fmt::format("Kineto ({})", parts);
}

std::string rows(std::uint64_t count) {
  return fmt::format("{} row{}", count, count == 1 ? "" : "s");
}

}  // namespace

// Records carry the builder's thread index until here: a thread's name may stand behind its rows.
void KinetoRecordingBuilder::finish_threads() {
  std::vector<model::ThreadId> ids(threads_.size(), 0);
  const auto id_of_thread = [&](std::uint32_t index) {
    const HostThread& thread = threads_[index];
    if (ids[index] == 0) {
      ids[index] = recording_->mutable_tables().intern_thread(thread.pid, thread.tid,
                                                              unescaped(thread.name));
    }
    return ids[index];
  };
  if (!calls_.empty()) {
    recording_->mutable_info().pid = threads_[calls_.front().thread].pid;
  } else if (!spans_.empty()) {
    recording_->mutable_info().pid = threads_[spans_.front().thread].pid;
  }
  for (model::ApiCall& call : recording_->records.calls) call.thread = id_of_thread(call.thread);
  for (model::Marker& marker : recording_->records.markers) {
    marker.thread = id_of_thread(marker.thread);
  }
}

void KinetoRecordingBuilder::finish_devices(const KinetoHeader& header) {
  model::Tables& tables = recording_->mutable_tables();
  std::optional<std::string> common_name;
  bool is_common = true;
  for (const KinetoDevice& listed : header.devices) {
    model::Device device;
    device.ordinal = id_of(listed.id);
    device.name = intern(listed.name);
    device.multiprocessors = id_of(listed.multiprocessors);
    device.compute_major = id_of(listed.compute_major);
    device.compute_minor = id_of(listed.compute_minor);
    const auto memory_bytes = signed_integer_of(listed.memory_bytes);
    device.memory_bytes = memory_bytes ? static_cast<std::uint64_t>(*memory_bytes) : 0;
    device.merely_listed = true;
    tables.set_device(device);
    const std::string name = unescaped(listed.name);
    is_common = is_common && (!common_name || *common_name == name);
    common_name = name;
  }
  std::vector<std::uint32_t> used;
  for (const auto& activity : recording_->records.activities) used.push_back(activity.device);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  // ROCm numbers its rows by agent and its list by device: only what all listed ones share is
  // known.
  const bool is_rocm = !header.roctracer_version.empty() || !header.hip_runtime_version.empty();
  for (const std::uint32_t ordinal : used) {
    model::Device device;
    device.ordinal = ordinal;
    if (is_common && common_name) device.name = tables.intern(*common_name);
    for (const model::Device& listed : tables.devices()) {
      if (listed.ordinal == ordinal && !is_rocm) device = listed;
    }
    device.merely_listed = false;
    tables.set_device(device);
  }
}

void KinetoRecordingBuilder::finish_info(const KinetoHeader& header) {
  model::RecordingInfo& info = recording_->mutable_info();
  const model::Slice& records = recording_->records;
  info.producer = producer_of(header);
  info.format = "Kineto JSON";
  info.source = model::Source::imported;
  info.source_reason = "recorded by the PyTorch profiler (Kineto)";
  info.detail_level = "full";
  info.host_name = unescaped(header.host_name);
  info.rank = small_integer_of(header.rank);
  info.world_size = small_integer_of(header.world_size);
  for (const auto& [key, value] : header.settings) {
    info.settings.push_back(fmt::format("{}={}", unescaped(key), unescaped(value)));
  }
  const bool has_records = records.end_ns > records.begin_ns + 1;
  if (has_window_) {
    info.recording_start_ns =
        has_records ? std::min(window_.start_ns, records.begin_ns) : window_.start_ns;
    info.recording_end_ns =
        has_records ? std::max(window_.end_ns, records.end_ns - 1) : window_.end_ns;
  }
  const std::int64_t first_ns = has_window_ ? window_.start_ns : records.begin_ns;
  if (first_ns >= kLeastEpochTime_ns) {
    info.realtime_offset_ns = 0;
  } else if (has_window_ || has_records) {
    info.realtime_offset_ns = signed_integer_of(header.base_time_ns);
  }
  const auto lose = [&info](LossReason reason, std::uint64_t count) {
    info.losses.count[static_cast<std::size_t>(reason)] += count;
  };
  lose(LossReason::unknown_record, bad_rows_);
  lose(LossReason::reversed_timestamp, reversed_rows_);
  lose(LossReason::zero_timestamp, zero_rows_);
}

void KinetoRecordingBuilder::finish_warnings(const KinetoHeader& header,
                                             std::vector<std::string> warnings) {
  if (bad_rows_ != 0) {
    warnings.push_back(fmt::format("{} left out: no readable start or duration", rows(bad_rows_)));
  }
  if (reversed_rows_ != 0) {
    warnings.push_back(fmt::format("{} left out: negative duration", rows(reversed_rows_)));
  }
  if (zero_rows_ != 0) {
    warnings.push_back(fmt::format("{} left out: start and duration are 0", rows(zero_rows_)));
  }
  if (bad_memory_events_ != 0) {
    warnings.push_back(fmt::format("{} of device memory left out: no readable time, size or device",
                                   rows(bad_memory_events_)));
  }
  std::size_t named = 0;
  for (const auto& [category, count] : unknown_categories_) {
    if (++named > 4) break;
    warnings.push_back(fmt::format("{} left out: category \"{}\" is not known to this version",
                                   rows(count), unescaped(category)));
  }
  if (unknown_categories_.size() > 4) {
    warnings.push_back(
        fmt::format("{} more unknown categories left out", unknown_categories_.size() - 4));
  }
  if (!has_known_rows_) {
    warnings.emplace_back(header.has_rows && unknown_categories_.empty()
                              ? "no row is one of the PyTorch profiler's: nothing was recorded, or "
                                "another tool wrote the file"
                              : "no row has a category of the PyTorch profiler: another tool may "
                                "have written the file");
  }
  recording_->mutable_info().warnings = std::move(warnings);
}

std::unique_ptr<model::MemoryRecording> KinetoRecordingBuilder::finish(
    const KinetoHeader& header, std::vector<std::string> warnings) {
  add_calls(calls_, spans_, *recording_);
  finish_threads();
  finish_devices(header);
  recording_->seal();
  finish_info(header);
  finish_warnings(header, std::move(warnings));
  return std::move(recording_);
}

}  // namespace gpuidle::import
