// SPDX-License-Identifier: Apache-2.0
//
// A recording as a timeline for trace viewers: per device its idle gaps and its streams, per host
// thread its calls and marks. What goes on which row is decided here, once for all formats; a
// TimelineFormat writes it down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/report/export_sink.h"

namespace gpuidle::report {

/// Rows that belong together: a device, or the host process.
struct TimelineGroup {
  std::uint32_t id = 0;   ///< from 1
  std::uint32_t pid = 0;  ///< the host process; 0 for devices
  std::string name;
};

/// One row of slices.
struct TimelineRow {
  std::uint32_t id = 0;  ///< from 1, in all groups together
  std::uint32_t group = 0;
  std::uint32_t tid = 0;   ///< a host thread's calls; 0 for all other rows
  std::uint32_t rank = 0;  ///< rows of a group from top to bottom
  std::string name;
};

/// A fact about a slice; keys live as long as the program.
struct TimelineFact {
  std::string_view key;
  std::variant<std::int64_t, std::string_view> value;
};

/// Times in ns since the timeline's begin.
struct TimelineSlice {
  std::uint32_t row = 0;
  std::uint32_t name = 0;     ///< index into the names told by TimelineFormat::add_name()
  std::string_view category;  ///< lives as long as the program
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  /// Joins a call with the operations it enqueued; 0 = not known.
  std::uint32_t correlation = 0;
  bool is_call = false;                              ///< the side of the correlation
  const std::vector<TimelineFact>* facts = nullptr;  ///< may be nullptr
};

/// Writes one file format. Groups, rows and names are told before the first slice that uses them;
/// slices of one row come in order of their start. Context: tool.
class TimelineFormat {
 public:
  virtual ~TimelineFormat() = default;
  /// `facts` tell of the recording as a whole.
  virtual void begin(const std::vector<TimelineFact>& facts) = 0;
  virtual void add_group(const TimelineGroup& group) = 0;
  virtual void add_row(const TimelineRow& row) = 0;
  /// Names are numbered from 0 in the order in which they are told; any bytes.
  virtual void add_name(std::string_view name) = 0;
  virtual void add_slice(const TimelineSlice& slice) = 0;
  virtual void end() = 0;
};

/// What went into an export.
struct ExportCounts {
  std::uint64_t activities = 0;
  std::uint64_t calls = 0;
  std::uint64_t gaps = 0;
  std::uint64_t markers = 0;
  /// Records of which too many overlap to be drawn, reversed or of unknown kind.
  std::uint64_t left_out = 0;
};

/// Streams the recording into `format`; memory is bounded by the dictionaries. The status is that
/// of Recording::visit(). `*found` receives the analysis that named the gaps. Context: tool.
base::Status export_timeline(const model::Recording& recording, TimelineFormat* format,
                             analysis::Idleness* found, ExportCounts* counts);

}  // namespace gpuidle::report
