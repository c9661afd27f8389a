// SPDX-License-Identifier: Apache-2.0
//
// What the Kineto tests share: a recording from inline JSON, and all its records in one slice.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "libgpuidle/import/kineto.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::test {

/// All records of a recording, in the order in which they are streamed.
class Everything : public model::SliceVisitor {
 public:
  explicit Everything(const model::Recording& recording) {
    const base::Status status = recording.visit(*this);
    CHECK(status.ok());
  }
  void on_slice(const model::Slice& slice) override {
    activities.insert(activities.end(), slice.activities.begin(), slice.activities.end());
    calls.insert(calls.end(), slice.calls.begin(), slice.calls.end());
    markers.insert(markers.end(), slice.markers.begin(), slice.markers.end());
    overheads.insert(overheads.end(), slice.overheads.begin(), slice.overheads.end());
    memory.insert(memory.end(), slice.memory.begin(), slice.memory.end());
  }
  std::vector<model::DeviceActivity> activities;
  std::vector<model::ApiCall> calls;
  std::vector<model::Marker> markers;
  std::vector<model::Overhead> overheads;
  std::vector<model::MemoryEvent> memory;
};

inline base::Result<std::unique_ptr<model::Recording>> read(std::string_view json) {
  return import::read_kineto(import::PaddedText::copy_of(json), "test.json");
}

/// A recording of `json`, which must be one.
inline std::unique_ptr<model::Recording> recording_of(std::string_view json) {
  auto result = read(json);
  INFO(result.status().message());
  REQUIRE(result.ok());
  return result.take();
}

/// A recording of rows: `rows` is what stands between the brackets of traceEvents.
inline std::unique_ptr<model::Recording> recording_of_rows(const std::string& rows) {
  return recording_of(R"({"schemaVersion": 1, "traceEvents": [)" + rows + "]}");
}

/// The stack of a call, innermost first, as "function file:line" or "function".
inline std::vector<std::string> stack_text(const model::Recording& recording,
                                           const model::ApiCall& call) {
  const model::Tables& tables = recording.tables();
  std::size_t count = 0;
  const model::FrameId* frames = tables.stack(call.stack, &count);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < count; ++i) {
    const model::Frame& frame = tables.frames()[frames[i]];
    std::string line(tables.string(frame.function));
    if (frame.kind == model::Frame::Kind::python) {
      line += " " + std::string(tables.string(frame.file)) + ":" + std::to_string(frame.line);
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace gpuidle::test
