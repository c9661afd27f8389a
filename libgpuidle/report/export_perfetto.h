// SPDX-License-Identifier: Apache-2.0
//
// The timeline in Perfetto's own format (protobuf), under half the size of the JSON and without
// its limit on what a viewer can load. The few messages that it takes are written directly: the
// wire format is a page, the library a dependency of megabytes. Fed by export_timeline().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libgpuidle/report/export_timeline.h"

namespace gpuidle::report {

/// Context: tool.
class PerfettoTimeline : public TimelineFormat {
 public:
  explicit PerfettoTimeline(ExportSink* sink) : buffer_(sink) {}

  void begin(const std::vector<TimelineFact>& facts) override;
  void add_group(const TimelineGroup& group) override;
  void add_row(const TimelineRow& row) override;
  void add_name(std::string_view name) override;
  void add_slice(const TimelineSlice& slice) override;
  void end() override;

 private:
  std::uint64_t key_id(std::string_view key);
  std::uint64_t category_id(std::string_view category);
  void append_facts(const std::vector<TimelineFact>& facts, std::string* event);
  void write_edge(std::int64_t at_ns, const std::string& event);
  void write_packet(const std::string& packet);

  ExportBuffer buffer_;
  std::vector<std::string> names_;  // emptied once they are in the file
  std::vector<bool> is_name_written_;
  std::unordered_map<std::string_view, std::uint64_t> keys_, categories_;
  std::vector<std::uint32_t> pids_;  // by group, 0 for devices
  std::string interned_;             // what the next packet must bring along
  std::string event_, packet_, annotation_, scratch_;
  bool is_first_packet_ = true;
};

}  // namespace gpuidle::report
