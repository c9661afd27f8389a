// SPDX-License-Identifier: Apache-2.0
//
// A whole recording as the analysis sees it: facts about the run, the dictionaries, and the records
// streamed in time order. Our own files are streamed chunk by chunk (memory does not grow with
// their length); importers fill a MemoryRecording.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libgpuidle/base/status.h"
#include "libgpuidle/model/records.h"
#include "libgpuidle/model/tables.h"

namespace gpuidle::model {

/// Where host calls and device activity came from, best first.
enum class Source : std::uint8_t {
  unknown = 0,
  cupti_shared = 1,   ///< CUPTI beside other subscribers
  cupti = 2,          ///< CUPTI as its sole subscriber
  interposition = 3,  ///< host calls only: device time is proven idle or not observed
  off = 4,            ///< nothing recorded
  imported = 5,       ///< another tool's file
};

/// How the recorded program ended.
enum class End : std::uint8_t {
  unknown = 0,  ///< foreign file
  clean = 1,    ///< the recorder saw the end and closed the file
  abrupt = 2,   ///< no footer: killed, crashed, or still running
};

struct Losses {
  std::array<std::uint64_t, kLossReasonCount> count{};
  std::uint64_t total() const;
};

/// Facts about a run; what is not known is empty or nullopt, never guessed.
struct RecordingInfo {
  std::string producer;  ///< e.g. "libgpuidle 0.1.0", "Kineto"
  std::string format;    ///< e.g. "gpuidle 1.0", "Kineto JSON"
  Source source = Source::unknown;
  std::string source_reason;         ///< why this source and no better one; "" = it is the best
  std::string detail_level;          ///< "full" or "gaps"
  std::string program;               ///< path of the executable
  std::vector<std::string> command;  ///< argv
  std::string host_name;
  std::uint32_t pid = 0;
  std::optional<std::int64_t> process_start_ns;  ///< in the recording's clock
  std::optional<std::int64_t> recording_start_ns;
  std::optional<std::int64_t> recording_end_ns;    ///< last moment known to be recorded
  std::optional<std::int64_t> realtime_offset_ns;  ///< add to get nanoseconds since the Unix epoch
  std::optional<std::int32_t> rank;
  std::optional<std::int32_t> world_size;
  End end = End::unknown;
  Losses losses;
  /// Host launches that were seen, whether or not device records exist for them.
  std::uint64_t launch_calls = 0;
  std::vector<std::string> warnings;  ///< one line each, for the user
  /// Effective settings of the recorder, NAME=value.
  std::vector<std::string> settings;

  /// No records are known to be missing. What a visit finds out on its way comes on top.
  bool is_whole() const { return losses.total() == 0 && end != End::abrupt; }
};

/// The records of one slice of time [begin_ns, end_ns). Every vector is sorted by start (enter).
/// Activities belong to the slice in which they start. Calls run ahead by kCallLead, so that a
/// device that starts work a moment "before" the call which enqueued it (clock error) still finds
/// its call; each call is delivered exactly once.
struct Slice {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<DeviceActivity> activities;
  std::vector<ApiCall> calls;
  std::vector<Marker> markers;
  std::vector<Overhead> overheads;
  std::vector<Unobserved> unobserved;
  std::vector<RecordedGap> gaps;
  std::vector<ThreadSample> samples;
  std::vector<MemoryEvent> memory;  ///< foreign recordings only: our own files do not keep them

  bool empty() const {
    return activities.empty() && calls.empty() && markers.empty() && overheads.empty() &&
           unobserved.empty() && gaps.empty() && samples.empty() && memory.empty();
  }
  void clear();
  /// Sorts every vector into the order that is promised above.
  void sort();
};
inline constexpr std::int64_t kCallLead_ns = 1'000'000;

/// Receives a recording slice by slice, in ascending order of time.
class SliceVisitor {
 public:
  virtual ~SliceVisitor() = default;
  virtual void on_slice(const Slice& slice) = 0;
};

/// Context: tool.
class Recording {
 public:
  virtual ~Recording() = default;
  const RecordingInfo& info() const { return info_; }
  const Tables& tables() const { return tables_; }
  /// Streams all records; may be called again. Errors: I/O and corruption met on the way. What was
  /// readable before the error has been delivered, and the caller may use it with a warning.
  virtual base::Status visit(SliceVisitor& visitor) const = 0;

 protected:
  RecordingInfo info_;
  Tables tables_;
};

/// A recording held in memory: importers and tests fill the public members, then seal().
class MemoryRecording : public Recording {
 public:
  RecordingInfo& mutable_info() { return info_; }
  Tables& mutable_tables() { return tables_; }
  Slice records;  ///< one slice with everything; any order until seal()

  /// Sorts and sets the slice bounds. Must be called before visit().
  void seal();
  base::Status visit(SliceVisitor& visitor) const override;
};

}  // namespace gpuidle::model
