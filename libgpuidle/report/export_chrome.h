// SPDX-License-Identifier: Apache-2.0
//
// The timeline as JSON in the Trace Event Format, read by chrome://tracing, ui.perfetto.dev and
// many others. Fed by export_timeline().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libgpuidle/report/export_timeline.h"

namespace gpuidle::report {

/// Context: tool.
class ChromeTimeline : public TimelineFormat {
 public:
  explicit ChromeTimeline(ExportSink* sink) : buffer_(sink) {}

  void begin(const std::vector<TimelineFact>& facts) override;
  void add_group(const TimelineGroup& group) override;
  void add_row(const TimelineRow& row) override;
  void add_name(std::string_view name) override;
  void add_slice(const TimelineSlice& slice) override;
  void end() override;

 private:
  void begin_event();
  void add_facts(const std::vector<TimelineFact>& facts);
  void add_metadata(std::string_view kind, std::uint32_t pid, std::uint32_t tid,
                    std::string_view name, std::uint32_t rank);

  ExportBuffer buffer_;
  bool has_events_ = false;
  std::vector<std::string> names_;       // quoted
  std::vector<std::uint32_t> pids_;      // by group
  std::vector<std::uint32_t> row_pids_;  // by row
};

}  // namespace gpuidle::report
