// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/export_perfetto.h"

#include <algorithm>

#include "libgpuidle/report/export_wire.h"
#include "libgpuidle/report/utf8.h"

namespace gpuidle::report {
namespace {

using wire::append_bytes;
using wire::append_fixed;
using wire::append_number;

// Field numbers of Perfetto's trace_packet.proto, track_event.proto, track_descriptor.proto,
// interned_data.proto and debug_annotation.proto, which never change once they are released.
namespace trace {
constexpr std::uint32_t kPacket = 1;
}
namespace packet {
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12,
                        kSequenceFlags = 13, kTrackDescriptor = 60;
}
namespace descriptor {
constexpr std::uint32_t kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5,
                        kChildOrdering = 11, kSiblingRank = 12;
constexpr std::uint64_t kExplicitOrder = 3;
}  // namespace descriptor
namespace process {
constexpr std::uint32_t kPid = 1, kName = 6;
}
namespace thread {
constexpr std::uint32_t kPid = 1, kTid = 2, kName = 5;
}
namespace event {
constexpr std::uint32_t kCategory = 3, kFact = 4, kType = 9, kName = 10, kTrack = 11, kFlow = 47;
constexpr std::uint64_t kBegin = 1, kEnd = 2, kInstant = 3;
}  // namespace event
namespace fact {
constexpr std::uint32_t kKey = 1, kNumber = 4, kText = 6;
}
namespace interned {
constexpr std::uint32_t kCategories = 1, kNames = 2, kKeys = 3;
constexpr std::uint32_t kId = 1, kText = 2;
}  // namespace interned

constexpr std::uint64_t kOurSequence = 1;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;

// Track ids: rows as they are numbered, groups far above them, the recording's own in between.
constexpr std::uint64_t kGroupTracks = std::uint64_t{1} << 40;
constexpr std::uint64_t kRecordingTrack = std::uint64_t{1} << 39;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    clean += length > 0 ? text.substr(i, length) : std::string_view("\xEF\xBF\xBD");
    i += length > 0 ? length : 1;
  }
  return clean;
}

void append_interned(std::uint32_t kind, std::uint64_t id, std::string_view text,
                     std::string* out) {
  std::string entry;
  append_number(interned::kId, id, &entry);
  append_bytes(interned::kText, text, &entry);
  append_bytes(kind, entry, out);
}

}  // namespace

void PerfettoTimeline::write_packet(const std::string& packet) {
  std::string& out = buffer_.text();
  scratch_ = packet;
  append_number(packet::kSequence, kOurSequence, &scratch_);
  append_number(packet::kSequenceFlags,
                is_first_packet_ ? kStateCleared | kNeedsState : kNeedsState, &scratch_);
  is_first_packet_ = false;
  append_bytes(trace::kPacket, scratch_, &out);
  buffer_.flush_if_full();
}

void PerfettoTimeline::begin(const std::vector<TimelineFact>& facts) {
  std::string track;
  append_number(descriptor::kUuid, kRecordingTrack, &track);
  append_bytes(descriptor::kName, "recording", &track);
  packet_.clear();
  append_bytes(packet::kTrackDescriptor, track, &packet_);
  write_packet(packet_);
  event_.clear();
  append_number(event::kType, event::kInstant, &event_);
  append_number(event::kTrack, kRecordingTrack, &event_);
  append_interned(interned::kNames, 1, "about this recording", &interned_);
  append_number(event::kName, 1, &event_);
  append_facts(facts, &event_);
  write_edge(0, event_);
}

std::uint64_t PerfettoTimeline::key_id(std::string_view key) {
  const auto [at, is_new] = keys_.emplace(key, keys_.size() + 1);
  if (is_new) append_interned(interned::kKeys, at->second, key, &interned_);
  return at->second;
}

std::uint64_t PerfettoTimeline::category_id(std::string_view category) {
  const auto [at, is_new] = categories_.emplace(category, categories_.size() + 1);
  if (is_new) append_interned(interned::kCategories, at->second, category, &interned_);
  return at->second;
}

void PerfettoTimeline::append_facts(const std::vector<TimelineFact>& facts, std::string* event) {
  for (const TimelineFact& one : facts) {
    annotation_.clear();
    append_number(fact::kKey, key_id(one.key), &annotation_);
    if (const auto* number = std::get_if<std::int64_t>(&one.value)) {
      append_number(fact::kNumber, static_cast<std::uint64_t>(*number), &annotation_);
    } else {
      const std::string_view text = std::get<std::string_view>(one.value);
      is_ascii(text) ? append_bytes(fact::kText, text, &annotation_)
                     : append_bytes(fact::kText, utf8(text), &annotation_);
    }
    append_bytes(event::kFact, annotation_, event);
  }
}

void PerfettoTimeline::add_group(const TimelineGroup& group) {
  std::string track;
  append_number(descriptor::kUuid, kGroupTracks + group.id, &track);
  append_number(descriptor::kChildOrdering, descriptor::kExplicitOrder, &track);
  if (group.pid != 0) {
    std::string of;
    append_number(process::kPid, group.pid, &of);
    append_bytes(process::kName, utf8(group.name), &of);
    append_bytes(descriptor::kProcess, of, &track);
  } else {
    append_bytes(descriptor::kName, utf8(group.name), &track);
  }
  pids_.resize(group.id + 1);
  pids_[group.id] = group.pid;
  packet_.clear();
  append_bytes(packet::kTrackDescriptor, track, &packet_);
  write_packet(packet_);
}

void PerfettoTimeline::add_row(const TimelineRow& row) {
  std::string track;
  append_number(descriptor::kUuid, row.id, &track);
  append_number(descriptor::kParent, kGroupTracks + row.group, &track);
  append_number(descriptor::kSiblingRank, row.rank, &track);
  if (row.tid != 0 && pids_[row.group] != 0) {
    std::string of;
    append_number(thread::kPid, pids_[row.group], &of);
    append_number(thread::kTid, row.tid, &of);
    append_bytes(thread::kName, utf8(row.name), &of);
    append_bytes(descriptor::kThread, of, &track);
  } else {
    append_bytes(descriptor::kName, utf8(row.name), &track);
  }
  packet_.clear();
  append_bytes(packet::kTrackDescriptor, track, &packet_);
  write_packet(packet_);
}

void PerfettoTimeline::add_name(std::string_view name) {
  names_.push_back(utf8(name));
  is_name_written_.push_back(false);
}

void PerfettoTimeline::write_edge(std::int64_t at_ns, const std::string& event) {
  packet_.clear();
  append_number(packet::kTimestamp, static_cast<std::uint64_t>(at_ns), &packet_);
  if (!interned_.empty()) {
    append_bytes(packet::kInterned, interned_, &packet_);
    interned_.clear();
  }
  append_bytes(packet::kTrackEvent, event, &packet_);
  write_packet(packet_);
}

void PerfettoTimeline::add_slice(const TimelineSlice& slice) {
  // Name 1 tells about the recording.
  const std::uint64_t name_id = std::uint64_t{slice.name} + 2;
  if (!is_name_written_[slice.name]) {
    is_name_written_[slice.name] = true;
    append_interned(interned::kNames, name_id, names_[slice.name], &interned_);
    names_[slice.name] = std::string();
  }
  event_.clear();
  append_number(event::kType, event::kBegin, &event_);
  append_number(event::kTrack, slice.row, &event_);
  append_number(event::kCategory, category_id(slice.category), &event_);
  append_number(event::kName, name_id, &event_);
  if (slice.correlation != 0) append_fixed(event::kFlow, slice.correlation, &event_);
  if (slice.facts != nullptr) append_facts(*slice.facts, &event_);
  write_edge(slice.start_ns, event_);
  event_.clear();
  append_number(event::kType, event::kEnd, &event_);
  append_number(event::kTrack, slice.row, &event_);
  write_edge(slice.end_ns, event_);
}

void PerfettoTimeline::end() { buffer_.flush(); }

}  // namespace gpuidle::report
