// SPDX-License-Identifier: Apache-2.0
//
// Turns the tables of an Nsight Systems export into a recording. Made by read_nsys() for a database
// that is one. Columns are asked for by name; tables and columns that an export lacks are no error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libgpuidle/base/status.h"
#include "libgpuidle/import/host_calls.h"
#include "libgpuidle/import/sqlite_file.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::import {

/// Context: tool. The file must outlive the builder.
class NsysRecordingBuilder {
 public:
  explicit NsysRecordingBuilder(const SqliteFile& file);

  /// Reads all tables. Errors: those of SqliteFile::scan().
  base::Status read();
  /// The recording, sealed. Call once, after read().
  std::unique_ptr<model::MemoryRecording> finish();

 private:
  struct Interval {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  using Reader = void (NsysRecordingBuilder::*)(const SqliteRow&);

  // nsys_recording.cpp: tables of events
  base::Status scan_events(const char* table, const std::vector<const char*>& columns,
                           Reader reader);
  base::Status read_device_tables();
  base::Status read_host_tables();
  void add_kernel(const SqliteRow& row);
  void add_copy(const SqliteRow& row);
  void add_set(const SqliteRow& row);
  void add_graph(const SqliteRow& row);
  void add_call(const SqliteRow& row);
  void add_annotation(const SqliteRow& row);
  void add_profiler_overhead(const SqliteRow& row);
  void add_driver_overhead(const SqliteRow& row);
  void add_overhead(const SqliteRow& row, bool is_profiler);
  bool read_interval(const SqliteRow& row, Interval& interval);
  model::DeviceActivity* add_activity(const SqliteRow& row, model::ActivityKind kind);
  void add_span(const Interval& interval, std::string_view name, model::ThreadId thread);

  model::StringId intern(std::optional<std::int64_t> string_id);
  std::string_view string_of(std::optional<std::int64_t> string_id) const;
  std::string_view keep(std::string_view text);
  model::ThreadId thread_of(std::optional<std::int64_t> global_tid);
  std::uint32_t process_of(std::int64_t global_pid);
  void lose(model::LossReason reason, std::uint64_t count = 1);

  // nsys_facts.cpp: tables of facts, and what can only be said once all rows have been seen
  base::Status read_facts();
  base::Status read_versions();
  base::Status read_session();
  base::Status read_names();
  base::Status read_listed_devices();
  base::Status read_diagnostics();
  void number_devices();
  void number_correlations();
  void finish_devices();
  void finish_process();
  void finish_info();
  void finish_warnings();

  const SqliteFile& file_;
  std::unique_ptr<model::MemoryRecording> recording_;

  std::unordered_map<std::int64_t, std::string> strings_;  // StringIds
  std::unordered_map<std::int64_t, model::StringId> interned_;
  std::unordered_set<std::string> kept_texts_;                      // for views that must last
  std::unordered_map<std::int64_t, model::StringId> thread_names_;  // by globalTid
  std::unordered_map<std::int64_t, std::string> process_names_;     // by globalPid

  std::vector<std::int64_t> processes_;  // globalPid of each process with CUDA records
  std::unordered_map<std::int64_t, std::uint32_t> process_index_;
  std::vector<std::uint32_t> activity_process_;  // of all activities, by index into processes_
  std::vector<HostCall> calls_;
  std::vector<std::uint32_t> call_process_;  // of calls_, likewise
  std::vector<HostSpan> spans_;

  std::string product_version_, schema_version_;
  std::optional<std::int64_t> duration_ns_;
  std::optional<std::int64_t> session_start_ns_;  // since the Unix epoch
  std::vector<model::Device> listed_devices_;     // ordinal: see listed_ids_
  std::vector<std::int64_t> listed_ids_;          // TARGET_INFO_GPU.id of each
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> gpu_of_;  // (pid, cudaId) -> gpuId
  std::vector<std::string> diagnostics_;
  std::vector<std::string> warnings_;
  std::uint64_t bad_times_ = 0;    // no integer where a time should be
  std::uint64_t bad_devices_ = 0;  // no device
  std::uint64_t reversed_ = 0;
  std::uint64_t zero_times_ = 0;
  std::uint64_t far_times_ = 0;
  std::uint64_t open_annotations_ = 0;
};

}  // namespace gpuidle::import
