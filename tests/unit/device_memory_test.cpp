// SPDX-License-Identifier: Apache-2.0
//
// Device memory: what the rows of a Kineto trace say of it, and what is made of it.
#include "libgpuidle/analysis/device_memory.h"

#include <catch2/catch.hpp>

#include "libgpuidle/analysis/findings.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/report/device_memory_report.h"
#include "tests/unit/kineto_reading.h"

namespace gpuidle {
namespace {

using analysis::MemoryUse;
using model::MemoryEvent;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

MemoryEvent event(std::int64_t at_ns, std::int64_t bytes) {
  MemoryEvent made;
  made.start_ns = at_ns;
  made.bytes = bytes;
  return made;
}

MemoryEvent with_totals(std::int64_t at_ns, std::int64_t bytes, std::uint64_t allocated,
                        std::uint64_t reserved) {
  MemoryEvent made = event(at_ns, bytes);
  made.has_totals = true;
  made.allocated_bytes = allocated;
  made.reserved_bytes = reserved;
  return made;
}

std::vector<MemoryUse> uses_of(const std::vector<MemoryEvent>& events,
                               std::uint64_t total_bytes = 0) {
  model::MemoryRecording recording;
  model::Device device;
  device.memory_bytes = total_bytes;
  recording.mutable_tables().set_device(device);
  recording.records.memory = events;
  recording.seal();
  analysis::DeviceMemoryMeter meter;
  REQUIRE(recording.visit(meter).ok());
  return meter.finish(recording.tables());
}

std::string row(const std::string& args) {
  return R"json({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,)json"
         R"json("ts":5.5,"args":{)json" +
         args + "}}";
}

std::vector<MemoryEvent> events_of(const std::string& rows) {
  return test::Everything(*test::recording_of_rows(rows)).memory;
}

TEST_CASE("peaks are the highest totals and the first moment that had them", "[memory]") {
  const auto uses = uses_of({with_totals(10, 5, 5, 20), with_totals(20, 4, 9, 20),
                             with_totals(30, -4, 5, 12), with_totals(40, 4, 9, 16)},
                            100);
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].event_count == 4);
  REQUIRE(uses[0].allocated.has_value());
  CHECK(uses[0].allocated->bytes == 9);
  CHECK(uses[0].allocated->at_ns == 20);
  REQUIRE(uses[0].reserved.has_value());
  CHECK(uses[0].reserved->bytes == 20);
  CHECK(uses[0].reserved->at_ns == 10);
  CHECK(uses[0].end_allocated_bytes == 9);
  CHECK(uses[0].headroom_bytes() == std::uint64_t{80});
}

TEST_CASE("frees of what was allocated before the recording raise the least peak", "[memory]") {
  // At least 7 were live at the start, so at least 7 + 2 at 10 ns.
  const auto uses = uses_of({event(10, 2), event(20, -9), event(30, 4)});
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].least_peak.bytes == 9);
  CHECK(uses[0].least_peak.at_ns == 10);
  CHECK_FALSE(uses[0].allocated.has_value());
  CHECK_FALSE(uses[0].headroom_bytes().has_value());
}

TEST_CASE("head-room is not known without the device's size, or beyond it", "[memory]") {
  CHECK_FALSE(uses_of({with_totals(1, 1, 1, 2)}, 0)[0].headroom_bytes().has_value());
  CHECK_FALSE(uses_of({with_totals(1, 1, 1, 2)}, 1)[0].headroom_bytes().has_value());
  CHECK(uses_of({with_totals(1, 1, 1, 2)}, 2)[0].headroom_bytes() == std::uint64_t{0});
}

TEST_CASE("events outside the time of the other records are delivered once", "[memory]") {
  model::MemoryRecording recording;
  model::DeviceActivity kernel;
  kernel.kind = model::ActivityKind::kernel;
  kernel.start_ns = 100;
  kernel.end_ns = 200;
  recording.records.activities = {kernel};
  recording.records.memory = {event(900, 1), event(5, 2), event(150, 4)};
  recording.seal();
  CHECK(recording.records.begin_ns == 100);
  CHECK(recording.records.end_ns == 201);
  const test::Everything all(recording);
  REQUIRE(all.memory.size() == 3);
  CHECK(all.memory[0].bytes == 2);
  CHECK(all.memory[2].bytes == 1);
}

TEST_CASE("a memory row of a GPU becomes an event, one of the host does not", "[memory][kineto]") {
  const std::string totals = R"("Bytes":-512,"Total Allocated":1024,"Total Reserved":2048)";
  const auto events = events_of(row(R"("Device Type":1,"Device Id":3,)" + totals) + "," +
                                row(R"("Device Type":0,"Device Id":-1,)" + totals));
  REQUIRE(events.size() == 1);
  CHECK(events[0].start_ns == 5500);
  CHECK(events[0].device == 3);
  CHECK(events[0].bytes == -512);
  CHECK(events[0].has_totals);
  CHECK(events[0].allocated_bytes == 1024);
  CHECK(events[0].reserved_bytes == 2048);
}

TEST_CASE("a memory row reads the same whatever the order of its keys", "[memory][kineto]") {
  const std::string args = R"("args":{"Bytes":8,"Device Id":0,"Device Type":1})";
  for (const std::string& json :
       {"{" + args + R"(,"name":"[memory]","ph":"i","ts":1})",
        R"({"ph":"i","cat":"cpu_instant_event",)" + args + R"(,"name":"[memory]","ts":1})",
        R"({"ph":"i","name":"[memory]",)" + args + R"(,"ts":1})"}) {
    INFO(json);
    const auto events = events_of(json);
    REQUIRE(events.size() == 1);
    CHECK(events[0].bytes == 8);
    CHECK_FALSE(events[0].has_totals);
  }
}

TEST_CASE("memory rows with impossible sizes are left out and counted", "[memory][kineto]") {
  std::string rows;
  for (const char* bytes : {"99999999999999999999999", "\"many\"", "1.5", "9007199254740993"}) {
    rows += (rows.empty() ? "" : ",") +
            row(R"("Device Type":1,"Device Id":0,"Bytes":)" + std::string(bytes));
  }
  const auto recording = test::recording_of_rows(rows);
  CHECK(test::Everything(*recording).memory.empty());
  REQUIRE_FALSE(recording->info().warnings.empty());
  CHECK(recording->info().warnings[0].find("4 rows of device memory left out") == 0);
}

TEST_CASE("the report tells peaks and head-room, or that they are not known", "[memory]") {
  const model::MemoryRecording recording;
  const analysis::Idleness found;
  const analysis::Findings findings;
  const std::vector<analysis::GapGroup> origins;
  const base::Status status;
  report::ReportInput input{recording, found, findings, origins, status};
  CHECK(report::text_device_memory(input, report::Style(false)).empty());

  const auto known = uses_of({with_totals(0, 1, 2 * kGiB, 4 * kGiB)}, 16 * kGiB);
  input.memory = &known;
  std::string text = report::text_device_memory(input, report::Style(false));
  INFO(text);
  CHECK(text.find("peak 2.0 GiB in live blocks") != std::string::npos);
  CHECK(text.find("head-room 12.0 GiB") != std::string::npos);

  const auto bound = uses_of({event(0, static_cast<std::int64_t>(kGiB))});
  input.memory = &bound;
  text = report::text_device_memory(input, report::Style(false));
  CHECK(text.find("at least 1.0 GiB") != std::string::npos);
  CHECK(text.find("head-room not known") != std::string::npos);
}

}  // namespace
}  // namespace gpuidle
