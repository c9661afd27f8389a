// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/export_flame.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "libgpuidle/report/json_writer.h"
#include "libgpuidle/report/utf8.h"
#include "libgpuidle/report/words.h"

namespace gpuidle::report {
namespace {

struct FlameFrame {
  std::string name;
  std::string file;
  std::uint32_t line = 0;

  bool operator<(const FlameFrame& other) const {
    return std::tie(name, file, line) < std::tie(other.name, other.file, other.line);
  }
};

// The cause, the frames of a group from the outermost inwards, and the call.
std::vector<FlameFrame> frames_of(const analysis::GapGroup& group, Places& places) {
  std::vector<FlameFrame> frames;
  frames.push_back({std::string(analysis::row_of(group.cause).id), "", 0});
  const Place place = places.of(group.stack);
  for (std::size_t i = place.frames.size(); i-- > 0;) {
    const symbols::ResolvedFrame& frame = place.frames[i];
    frames.push_back({frame.function, frame.file, frame.line});
  }
  if (place.frames.empty()) frames.push_back({"(no stack recorded)", "", 0});
  const std::string_view call = places.api_name(group.api);
  frames.push_back({fmt::format("{} {}", word_of(group.opener).phrase,
                                call.empty() ? "a call that is not recorded" : call),
                    "", 0});
  return frames;
}

// Calls visit(name of the part, ns) for each part that is not empty.
template <typename Visit>
void each_part(const analysis::IdleSplit& split, Visit visit) {
  if (split.host_ns > 0) visit("H nothing queued", split.host_ns);
  if (split.call_ns > 0) visit("A being queued", split.call_ns);
  if (split.device_ns > 0) visit("D queued, not started", split.device_ns);
  if (split.unknown_ns > 0) visit("split not known", split.unknown_ns);
}

// Folded stacks know no quoting: what would end a frame or a line is replaced.
std::string folded_name(const FlameFrame& frame) {
  std::string name = frame.name;
  if (!frame.file.empty()) {
    name += fmt::format(" ({}", frame.file.substr(frame.file.rfind('/') + 1));
    if (frame.line != 0) name += fmt::format(":{}", frame.line);
    name += ')';
  }
  std::string clean;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = utf8_length(std::string_view(name).substr(i));
    const auto byte = static_cast<unsigned char>(name[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      clean += '?';
    } else if (byte == ';') {
      clean += ':';
    } else {
      clean.append(name, i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return clean;
}

std::string device_frame(std::uint32_t device) { return fmt::format("device {}", device); }

// One profile of speedscope: the stacks of a device, as indices into the shared frames.
struct Profile {
  std::vector<std::vector<std::size_t>> samples;
  std::vector<std::int64_t> weights;
  std::int64_t total_ns = 0;
};

class SpeedscopeFile {
 public:
  void add(const analysis::GapGroup& group, Places& places) {
    std::vector<std::size_t> sample;
    for (const FlameFrame& frame : frames_of(group, places)) sample.push_back(index_of(frame));
    Profile& profile = profiles_[group.device];
    each_part(group.split, [&](const char* part, std::int64_t ns) {
      profile.samples.push_back(sample);
      profile.samples.back().push_back(index_of({part, "", 0}));
      profile.weights.push_back(ns);
      profile.total_ns += ns;
    });
  }
  void write(std::string_view title, const model::Tables& tables, ExportSink* sink) const;

 private:
  std::size_t index_of(const FlameFrame& frame) {
    const auto [at, is_new] = indices_.emplace(frame, frames_.size());
    if (is_new) frames_.push_back(&at->first);
    return at->second;
  }

  std::map<FlameFrame, std::size_t> indices_;
  std::vector<const FlameFrame*> frames_;
  std::map<std::uint32_t, Profile> profiles_;
};

void write_profile(std::string_view name, const Profile& profile, JsonWriter* json) {
  json->begin_object();
  json->field("type", "sampled").field("name", name).field("unit", "nanoseconds");
  json->field("startValue", 0).field("endValue", profile.total_ns);
  json->key("samples").begin_array();
  for (const std::vector<std::size_t>& sample : profile.samples) {
    json->begin_array();
    for (const std::size_t frame : sample) json->value(static_cast<std::uint64_t>(frame));
    json->end_array();
  }
  json->end_array().key("weights").begin_array();
  for (const std::int64_t weight : profile.weights) json->value(weight);
  json->end_array().end_object();
}

void SpeedscopeFile::write(std::string_view title, const model::Tables& tables,
                           ExportSink* sink) const {
  JsonWriter json;
  json.begin_object();
  json.field("$schema", "https://www.speedscope.app/file-format-schema.json");
  json.field("name", title).field("exporter", "gpuidle");
  json.key("shared").begin_object().key("frames").begin_array();
  for (const FlameFrame* frame : frames_) {
    json.begin_object().field("name", frame->name);
    if (!frame->file.empty()) json.field("file", frame->file);
    if (frame->line != 0) json.field("line", frame->line);
    json.end_object();
  }
  json.end_array().end_object().key("profiles").begin_array();
  for (const auto& [ordinal, profile] : profiles_) {
    std::string name = device_frame(ordinal) + ", idle time";
    for (const model::Device& device : tables.devices()) {
      if (device.ordinal != ordinal || device.name == 0) continue;
      name = fmt::format("device {} ({}), idle time", ordinal, tables.string(device.name));
    }
    write_profile(name, profile, &json);
  }
  json.end_array().end_object();
  sink->write(json.take());
}

}  // namespace

void export_folded(const analysis::Idleness& found, Places& places, ExportSink* sink) {
  ExportBuffer buffer(sink);
  for (const analysis::GapGroup& group : found.groups) {
    std::string stack = device_frame(group.device);
    for (const FlameFrame& frame : frames_of(group, places)) stack += ';' + folded_name(frame);
    each_part(group.split, [&](const char* part, std::int64_t ns) {
      buffer.text() += fmt::format("{};{} {}\n", stack, part, ns);
    });
    buffer.flush_if_full();
  }
  buffer.flush();
}

void export_speedscope(const model::Recording& recording, const analysis::Idleness& found,
                       std::string_view title, Places& places, ExportSink* sink) {
  SpeedscopeFile file;
  for (const analysis::GapGroup& group : found.groups) file.add(group, places);
  file.write(title, recording.tables(), sink);
}

}  // namespace gpuidle::report
