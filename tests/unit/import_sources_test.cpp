// SPDX-License-Identifier: Apache-2.0
//
// Every recording in the table of SOURCES.md is imported, and what comes out must have the
// counts and the busy time that an independent program computed. The union is taken here with plain
// sorting, so that the library's interval code does not test itself.
#include "tests/unit/import_sources.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "libgpuidle/import/open_recording.h"

namespace gpuidle {
namespace {

using model::ActivityKind;
using model::DeviceActivity;

class Collector : public model::SliceVisitor {
 public:
  void on_slice(const model::Slice& slice) override {
    activities.insert(activities.end(), slice.activities.begin(), slice.activities.end());
  }
  std::vector<DeviceActivity> activities;
};

std::int64_t union_of(std::vector<std::pair<std::int64_t, std::int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::int64_t total_ns = 0, covered_until_ns = INT64_MIN;
  for (const auto& [start_ns, end_ns] : intervals) {
    if (end_ns > covered_until_ns) {
      total_ns += end_ns - std::max(start_ns, covered_until_ns);
      covered_until_ns = end_ns;
    }
  }
  return total_ns;
}

std::string milliseconds(std::int64_t span_ns) {
  char text[64];
  // The table rounds to microseconds.
  const std::int64_t span_us = (span_ns + 500) / 1000;
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(span_us / 1000),
                static_cast<long long>(span_us % 1000));
  return text;
}

void check_activities(const test::SourceRow& row, const std::vector<DeviceActivity>& activities) {
  std::map<ActivityKind, std::uint64_t> count;
  std::set<std::pair<std::uint32_t, std::uint32_t>> streams;
  std::map<std::uint32_t, std::vector<std::pair<std::int64_t, std::int64_t>>> intervals;
  std::int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
  for (const DeviceActivity& activity : activities) {
    ++count[activity.kind];
    streams.emplace(activity.device, activity.stream);
    intervals[activity.device].emplace_back(activity.start_ns, activity.end_ns);
    first_ns = std::min(first_ns, activity.start_ns);
    last_ns = std::max(last_ns, activity.end_ns);
  }
  CHECK(count[ActivityKind::kernel] == row.kernels);
  CHECK(count[ActivityKind::memcpy] == row.memcpys);
  CHECK(count[ActivityKind::memset] == row.memsets);
  CHECK(activities.size() == row.kernels + row.memcpys + row.memsets);
  CHECK(intervals.size() == row.devices);
  CHECK(streams.size() == row.streams);
  CHECK(activities.empty() == !row.union_ns.has_value());
  if (activities.empty() || !row.union_ns) return;
  CHECK(milliseconds(last_ns - first_ns) == row.span_ms);
  std::int64_t total_ns = 0;
  for (auto& [device, list] : intervals) total_ns += union_of(std::move(list));
  CHECK(total_ns == *row.union_ns);
}

TEST_CASE("every recording of the table has the counts and the busy time it states", "[import]") {
  const std::string folder = test::sources_folder();
  const auto rows = test::read_sources(folder);
  if (rows.empty()) {
    WARN("skipped: no table of recordings at " << folder << "/SOURCES.md");
    return;
  }
  std::size_t checked = 0, databases = 0;
  for (const test::SourceRow& row : rows) {
    if (!row.is_json() && !row.is_sqlite()) continue;
    INFO(row.file);
    const auto opened = import::open_recording(folder + "/" + row.file);
    if (row.is_wrong_format()) {
      CHECK(opened.status().code() == base::StatusCode::wrong_format);
    } else {
      INFO(opened.status().message());
      CHECK(opened.ok());
      if (!opened.ok()) continue;
      Collector all;
      REQUIRE(opened.value()->visit(all).ok());
      check_activities(row, all.activities);
      CHECK(opened.value()->tables().is_consistent());
      CHECK(opened.value()->info().losses.total() == 0);
    }
    ++checked;
    databases += row.is_sqlite() ? 1 : 0;
  }
  CHECK(checked >= 38);
  CHECK(databases >= 8);
}

TEST_CASE("launches without any device record are a recording with launches", "[import]") {
  const std::string path =
      test::sources_folder() + "/zoology/a100_launches_without_kernels.json.gz";
  if (test::read_sources(test::sources_folder()).empty()) {
    WARN("skipped: no recording at " << path);
    return;
  }
  const auto opened = import::open_recording(path);
  REQUIRE(opened.ok());
  Collector all;
  REQUIRE(opened.value()->visit(all).ok());
  CHECK(all.activities.empty());
  CHECK(opened.value()->info().launch_calls > 0);
  const auto& devices = opened.value()->tables().devices();
  CHECK(devices.size() == 8);
  CHECK(std::all_of(devices.begin(), devices.end(), [](const auto& d) { return d.merely_listed; }));
}

}  // namespace
}  // namespace gpuidle
