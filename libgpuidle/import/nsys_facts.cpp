// SPDX-License-Identifier: Apache-2.0
//
// The other half of NsysRecordingBuilder: the tables that hold facts about the session, and what
// can only be said once all rows have been seen.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "libgpuidle/import/nsys_ids.h"
#include "libgpuidle/import/nsys_recording.h"

namespace gpuidle::import {
namespace {

using base::Status;
using model::DeviceActivity;
using model::LossReason;

constexpr std::int64_t kLatestEpoch_ns = std::int64_t{1} << 62;  // 2116
// ENUM_DIAGNOSTIC_SEVERITY_LEVEL
constexpr std::int64_t kDiagnosticWarning = 2, kDiagnosticError = 3;
constexpr std::size_t kShownDiagnostics = 4;
constexpr std::size_t kMaxArguments = 4096;

std::string rows(std::uint64_t count) {
  return fmt::format("{} row{}", count, count == 1 ? "" : "s");
}

std::string joined(const std::set<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  }
  return text;
}

std::string one_line(std::string_view text) {
  constexpr std::size_t kShownBytes = 300;
  std::string line(text.substr(0, kShownBytes));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace

Status NsysRecordingBuilder::read_facts() {
  Status status = file_.scan("StringIds", {"id", "value"}, [this](const SqliteRow& row) {
    if (const auto id = row.integer(0)) strings_.emplace(*id, row.text(1));
  });
  if (status.ok()) status = read_versions();
  if (status.ok()) status = read_session();
  if (status.ok()) status = read_names();
  if (status.ok()) status = read_listed_devices();
  if (status.ok()) status = read_diagnostics();
  return status;
}

Status NsysRecordingBuilder::read_versions() {
  const auto read_row = [this](const SqliteRow& row) {
    const std::string_view name = row.text(0), value = row.text(1);
    if (name == "EXPORT_PRODUCT_VERSION") product_version_ = one_line(value);
    if (name == "EXPORT_SCHEMA_VERSION") schema_version_ = one_line(value);
  };
  Status status = file_.scan("EXPORT_META_DATA", {"name", "value"}, read_row);
  if (status.ok()) status = file_.scan("META_DATA_EXPORT", {"name", "value"}, read_row);
  return status;
}

Status NsysRecordingBuilder::read_session() {
  Status status = file_.scan("ANALYSIS_DETAILS", {"duration"}, [this](const SqliteRow& row) {
    const std::int64_t duration_ns = row.integer(0).value_or(0);
    if (duration_ns > 0 && duration_ns < kLatestEpoch_ns / 2) duration_ns_ = duration_ns;
  });
  if (!status.ok()) return status;
  status = file_.scan("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [this](const SqliteRow& r) {
    const std::int64_t epoch_ns = r.integer(0).value_or(0);
    if (epoch_ns > 0 && epoch_ns < kLatestEpoch_ns) session_start_ns_ = epoch_ns;
  });
  if (!status.ok()) return status;
  // PROCESS_0:COMMAND and PROCESS_0:ARGUMENT_<n>, in any order.
  std::map<std::uint64_t, std::string> words;
  status = file_.scan("META_DATA_CAPTURE", {"name", "value"}, [&words](const SqliteRow& row) {
    constexpr std::string_view kCommand = "PROCESS_0:COMMAND", kArgument = "PROCESS_0:ARGUMENT_";
    const std::string_view name = row.text(0);
    if (name == kCommand) words[0] = row.text(1);
    if (name.substr(0, kArgument.size()) != kArgument || words.size() >= kMaxArguments) return;
    const std::string number(name.substr(kArgument.size()));
    constexpr std::size_t kMaxDigits = 9;
    if (number.empty() || number.size() > kMaxDigits) return;
    if (number.find_first_not_of("0123456789") != std::string::npos) return;
    words[1 + std::stoul(number)] = row.text(1);
  });
  if (words.count(0) != 0) {
    for (auto& [number, word] : words) {
      recording_->mutable_info().command.push_back(std::move(word));
    }
  }
  return status;
}

Status NsysRecordingBuilder::read_names() {
  std::unordered_map<std::int64_t, std::int64_t> priorities;
  Status status =
      file_.scan("ThreadNames", {"nameId", "priority", "globalTid"}, [&](const SqliteRow& row) {
        const auto thread = row.integer(2);
        if (!thread) return;
        const std::int64_t priority = row.integer(1).value_or(0);
        const auto [it, is_new] = priorities.emplace(*thread, priority);
        if (!is_new && priority <= it->second) return;
        it->second = priority;
        thread_names_[*thread] = intern(row.integer(0));
      });
  if (!status.ok()) return status;
  return file_.scan("PROCESSES", {"globalPid", "name"}, [this](const SqliteRow& row) {
    if (const auto process = row.integer(0)) process_names_[*process] = one_line(row.text(1));
  });
}

Status NsysRecordingBuilder::read_listed_devices() {
  Status status = file_.scan("TARGET_INFO_CUDA_DEVICE", {"pid", "cudaId", "gpuId"},
                             [this](const SqliteRow& row) {
                               const auto pid = row.integer(0), device = row.integer(1);
                               const auto gpu = row.integer(2);
                               if (pid && device && gpu) gpu_of_[{*pid, *device}] = *gpu;
                             });
  if (!status.ok()) return status;
  return file_.scan(
      "TARGET_INFO_GPU",
      {"id", "name", "smCount", "totalMemory", "computeMajor", "computeMinor", "cuDevice"},
      [this](const SqliteRow& row) {
        const auto id = row.integer(0);
        // cuDevice is negative for a GPU that CUDA does not see.
        const std::int64_t ordinal = row.integer(6).value_or(id.value_or(-1));
        if (!id || ordinal < 0 || ordinal > UINT32_MAX) return;
        model::Device device;
        device.ordinal = static_cast<std::uint32_t>(ordinal);
        device.name = recording_->mutable_tables().intern(one_line(row.text(1)));
        device.multiprocessors = small_integer_of(row.integer(2));
        device.memory_bytes =
            static_cast<std::uint64_t>(std::max<std::int64_t>(row.integer(3).value_or(0), 0));
        device.compute_major = small_integer_of(row.integer(4));
        device.compute_minor = small_integer_of(row.integer(5));
        device.merely_listed = true;
        listed_devices_.push_back(device);
        listed_ids_.push_back(*id);
      });
}

// Nsight Systems' own words about why there is no device work.
Status NsysRecordingBuilder::read_diagnostics() {
  return file_.scan("DIAGNOSTIC_EVENT", {"severity", "text"}, [this](const SqliteRow& row) {
    const auto severity = row.integer(0);
    if (severity != kDiagnosticWarning && severity != kDiagnosticError) return;
    const std::string line = one_line(row.text(1));
    const auto has = [&line](const char* word) { return line.find(word) != std::string::npos; };
    if (!has("CUDA") && !has("CUPTI") && !has("GPU") && !has("driver")) return;
    if (diagnostics_.size() >= kShownDiagnostics) return;
    if (std::find(diagnostics_.begin(), diagnostics_.end(), line) == diagnostics_.end()) {
      diagnostics_.push_back(line);
    }
  });
}

// deviceId is the CUDA ordinal, which each process counts on its own: with several processes, one
// number may stand for several GPUs and one GPU may have several numbers.
void NsysRecordingBuilder::number_devices() {
  auto& activities = recording_->records.activities;
  std::set<std::pair<std::uint32_t, std::uint32_t>> used;  // (device, process)
  for (std::size_t i = 0; i < activities.size(); ++i) {
    used.emplace(activities[i].device, activity_process_[i]);
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> gpus;
  std::map<std::int64_t, std::set<std::int64_t>> gpus_of_number, numbers_of_gpu, sharing;
  for (const auto& [device, process] : used) {
    const std::int64_t pid = pid_of(processes_[process]);
    sharing[device].insert(pid);
    const auto gpu = gpu_of_.find({pid, device});
    if (gpu == gpu_of_.end()) continue;
    gpus[{device, process}] = gpu->second;
    gpus_of_number[device].insert(gpu->second);
    numbers_of_gpu[gpu->second].insert(device);
  }
  const auto is_several = [](const auto& entry) { return entry.second.size() > 1; };
  const bool is_ambiguous = std::any_of(gpus_of_number.begin(), gpus_of_number.end(), is_several) ||
                            std::any_of(numbers_of_gpu.begin(), numbers_of_gpu.end(), is_several);
  if (is_ambiguous && gpus.size() == used.size()) {
    for (std::size_t i = 0; i < activities.size(); ++i) {
      const auto gpu = gpus.find({activities[i].device, activity_process_[i]});
      activities[i].device = small_integer_of(gpu->second);
    }
    for (std::size_t i = 0; i < listed_devices_.size(); ++i) {
      listed_devices_[i].ordinal = small_integer_of(listed_ids_[i]);
    }
    warnings_.emplace_back(
        "the processes number their GPUs differently: devices have the machine's numbers here, not "
        "CUDA's");
    return;
  }
  for (const auto& [device, pids] : sharing) {
    if (pids.size() < 2 || gpus.size() == used.size()) continue;
    warnings_.push_back(
        fmt::format("processes {} each used a device {}: if these were several GPUs (the export "
                    "does not say), their work is added up as one",
                    joined(pids), device));
  }
}

// Correlation ids count from 1 in each process; the model has one space for all of them.
void NsysRecordingBuilder::number_correlations() {
  auto& activities = recording_->records.activities;
  std::set<std::uint32_t> processes;
  for (std::size_t i = 0; i < activities.size(); ++i) {
    if (activities[i].correlation != 0) processes.insert(activity_process_[i]);
  }
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].record.correlation != 0) processes.insert(call_process_[i]);
  }
  // Rows that name no process belong to the only one that the others name.
  const auto unnamed = process_index_.find(0);
  if (unnamed != process_index_.end()) processes.erase(unnamed->second);
  if (processes.size() < 2) return;
  std::unordered_map<std::uint64_t, std::uint32_t> ids;
  const auto renumber = [&ids](std::uint32_t process, std::uint32_t& correlation) {
    if (correlation == 0) return;
    const std::uint64_t key = std::uint64_t{process} << 32 | correlation;
    correlation = ids.emplace(key, static_cast<std::uint32_t>(ids.size() + 1)).first->second;
  };
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    renumber(call_process_[i], calls_[i].record.correlation);
  }
  for (std::size_t i = 0; i < activities.size(); ++i) {
    renumber(activity_process_[i], activities[i].correlation);
  }
}

void NsysRecordingBuilder::finish_devices() {
  model::Tables& tables = recording_->mutable_tables();
  std::set<std::uint32_t> used;
  for (const DeviceActivity& activity : recording_->records.activities) {
    used.insert(activity.device);
  }
  for (model::Device device : listed_devices_) {
    device.merely_listed = used.erase(device.ordinal) == 0;
    tables.set_device(device);
  }
  for (const std::uint32_t ordinal : used) {
    model::Device device;
    device.ordinal = ordinal;
    tables.set_device(device);
  }
}

// The process that used the GPU most stands for the program.
void NsysRecordingBuilder::finish_process() {
  std::vector<std::uint64_t> work(processes_.size(), 0);
  std::set<std::int64_t> with_work;
  for (const std::uint32_t process : activity_process_) {
    ++work[process];
    with_work.insert(pid_of(processes_[process]));
  }
  if (activity_process_.empty()) {
    for (const std::uint32_t process : call_process_) ++work[process];
  }
  const auto most = std::max_element(work.begin(), work.end());
  if (most == work.end() || *most == 0) return;
  const std::int64_t process = processes_[static_cast<std::size_t>(most - work.begin())];
  model::RecordingInfo& info = recording_->mutable_info();
  info.pid = pid_of(process);
  const auto name = process_names_.find(process);
  if (name != process_names_.end()) info.program = name->second;
  if (with_work.size() > 1) {
    warnings_.push_back(fmt::format("{} processes used a GPU ({}): all of them are in what follows",
                                    with_work.size(), joined(with_work)));
  }
}

void NsysRecordingBuilder::finish_info() {
  model::RecordingInfo& info = recording_->mutable_info();
  const model::Slice& records = recording_->records;
  info.producer = "Nsight Systems" + (product_version_.empty() ? "" : " " + product_version_);
  info.format =
      "Nsight Systems SQLite" + (schema_version_.empty() ? "" : ", schema " + schema_version_);
  info.source = model::Source::imported;
  info.source_reason = "recorded by Nsight Systems";
  info.detail_level = "full";
  info.realtime_offset_ns = session_start_ns_;
  // Times count from the start of the session, so it began at 0.
  if (duration_ns_) {
    info.recording_start_ns = 0;
    info.recording_end_ns = *duration_ns_;
  }
  if (!records.empty()) {
    const std::int64_t last_ns = records.end_ns - 1;
    info.recording_start_ns =
        std::min(info.recording_start_ns.value_or(records.begin_ns), records.begin_ns);
    info.recording_end_ns = std::max(info.recording_end_ns.value_or(last_ns), last_ns);
  }
  lose(LossReason::unknown_record, bad_times_ + bad_devices_);
  lose(LossReason::reversed_timestamp, reversed_);
  lose(LossReason::zero_timestamp, zero_times_);
  lose(LossReason::outside_session, far_times_);
}

void NsysRecordingBuilder::finish_warnings() {
  const auto left_out = [this](std::uint64_t count, const char* why) {
    if (count != 0) warnings_.push_back(fmt::format("{} left out: {}", rows(count), why));
  };
  left_out(bad_times_, "no integer as start or end");
  left_out(bad_devices_, "no device");
  left_out(reversed_, "end before start");
  left_out(zero_times_, "start and end are 0");
  left_out(far_times_, "decades away from the session");
  if (open_annotations_ != 0) {
    warnings_.push_back(fmt::format("{} never closed: they end with the recording here",
                                    open_annotations_ == 1
                                        ? "1 NVTX range was"
                                        : fmt::format("{} NVTX ranges were", open_annotations_)));
  }
  if (recording_->records.activities.empty()) {
    for (const std::string& line : diagnostics_) {
      warnings_.push_back("Nsight Systems says: " + line);
    }
    if (recording_->records.empty()) {
      warnings_.emplace_back(
          "the export holds facts about the machine, but no events of a program");
    }
  }
  for (const char* suffix : {"-wal", "-journal"}) {
    std::error_code none;  // no such file is the usual case
    const std::string beside = file_.path() + suffix;
    const std::uintmax_t size_bytes = std::filesystem::file_size(beside, none);
    if (none || size_bytes == 0) continue;
    warnings_.push_back(
        fmt::format("changes that another program left in {} were not read", beside));
  }
  recording_->mutable_info().warnings = std::move(warnings_);
}

std::unique_ptr<model::MemoryRecording> NsysRecordingBuilder::finish() {
  number_devices();
  number_correlations();
  add_calls(calls_, spans_, *recording_);
  finish_devices();
  recording_->seal();
  finish_process();
  finish_info();
  finish_warnings();
  return std::move(recording_);
}

}  // namespace gpuidle::import
