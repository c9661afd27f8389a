// SPDX-License-Identifier: Apache-2.0
//
// Turns the rows of a Kineto trace into a recording: fed row by row by walk_kineto(), asked once at
// the end for the whole. Keeps views into the file's text until then.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libgpuidle/import/host_calls.h"
#include "libgpuidle/import/kineto_json.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::import {

/// Context: tool. The text behind the rows must outlive finish().
class KinetoRecordingBuilder : public KinetoRowSink {
 public:
  KinetoRecordingBuilder();
  void on_row(const KinetoRow& row) override;
  void on_bad_row() override { ++bad_rows_; }

  /// The recording, sealed; `warnings` come first among its own. Call once.
  std::unique_ptr<model::MemoryRecording> finish(const KinetoHeader& header,
                                                 std::vector<std::string> warnings);

 private:
  struct Interval {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  struct HostThread {
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::string_view name;
  };

  bool read_interval(const KinetoRow& row, Interval& interval);
  void add_activity(const KinetoRow& row, const Interval& interval);
  void add_call(const KinetoRow& row, const Interval& interval);
  void add_span(const KinetoRow& row, const Interval& interval);
  void add_overhead(const KinetoRow& row, const Interval& interval);
  void add_memory_event(const KinetoRow& row);
  void read_metadata(const KinetoRow& row);
  std::uint32_t thread_of(const KinetoRow& row);
  std::uint32_t id_of(std::string_view token);
  model::StringId intern(std::string_view token);

  void finish_threads();
  void finish_devices(const KinetoHeader& header);
  void finish_info(const KinetoHeader& header);
  void finish_warnings(const KinetoHeader& header, std::vector<std::string> warnings);

  std::unique_ptr<model::MemoryRecording> recording_;
  std::vector<HostCall> calls_;
  std::vector<HostSpan> spans_;
  std::vector<HostThread> threads_;
  std::unordered_map<std::uint64_t, std::uint32_t> thread_index_;  // pid << 32 | tid
  std::unordered_map<std::string_view, std::uint32_t> named_ids_;  // ids that are not numbers
  std::map<std::string, std::uint64_t, std::less<>> unknown_categories_;
  std::uint64_t bad_memory_events_ = 0;  // of a GPU, without a time or a size
  bool has_window_ = false;
  bool has_known_rows_ = false;
  Interval window_;
  std::uint64_t bad_rows_ = 0;       // no object, no time, no duration
  std::uint64_t reversed_rows_ = 0;  // negative duration
  std::uint64_t zero_rows_ = 0;      // neither start nor duration
};

}  // namespace gpuidle::import
