// SPDX-License-Identifier: Apache-2.0
//
// Every recording of the shared collection that opens gives a ledger that adds up, with the busy
// time that the collection's table states, and a page without an absurd line. Skipped where the
// collection is not at hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/text_report.h"

using namespace gpuidle;

namespace {

const std::filesystem::path kTraces = std::filesystem::path(GPUIDLE_SHARED_DATA) / "traces";

// file -> union of all devices in ns, from the table's columns by name.
std::map<std::string, std::int64_t> stated_unions() {
  std::map<std::string, std::int64_t> unions;
  std::ifstream table(kTraces / "SOURCES.md");
  std::vector<std::string> header;
  for (std::string line; std::getline(table, line);) {
    if (line.rfind("| ", 0) != 0) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) {
      const std::size_t first = cell.find_first_not_of(' ');
      const std::size_t last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    if (header.empty()) header = cells;
    const auto column = std::find(header.begin(), header.end(), "union ns") - header.begin();
    if (static_cast<std::size_t>(column) >= cells.size()) continue;
    const std::string& cell = cells[static_cast<std::size_t>(column)];
    if (!cell.empty() && cell.find_first_not_of("0123456789") == std::string::npos) {
      unions[cells[0]] = std::stoll(cell);
    }
  }
  return unions;
}

void check_page(const report::ReportInput& input, report::Places& places) {
  std::istringstream page(report::text_report(input, places, report::Style(false)));
  for (std::string line; std::getline(page, line);) {
    CAPTURE(line);
    CHECK(report::columns_of(line) <= report::kColumns);
    for (std::size_t at = line.find(" %"); at != std::string::npos; at = line.find(" %", at + 1)) {
      const std::size_t start = line.find_last_not_of("0123456789.", at - 1) + 1;
      if (start < at) CHECK(std::stod(line.substr(start, at - start)) <= 100.0);
    }
    CHECK(line.find("nan") == std::string::npos);
  }
}

}  // namespace

TEST_CASE("the ledger of every shared recording adds up", "[analysis][unit]") {
  if (!std::filesystem::exists(kTraces / "SOURCES.md")) {
    WARN("skipped: no shared recordings at " << kTraces);
    return;
  }
  const auto unions = stated_unions();
  int opened_count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kTraces)) {
    if (entry.path().string().find(".json") == std::string::npos) continue;
    const std::string name = std::filesystem::relative(entry.path(), kTraces).string();
    CAPTURE(name);
    const auto opened = import::open_recording(entry.path().string());
    if (!opened.ok()) {
      CHECK(unions.count(name) == 0);
      continue;
    }
    ++opened_count;
    const model::Recording& recording = *opened.value();
    analysis::Idleness found;
    const base::Status status = analysis::analyze(recording, {}, &found);
    REQUIRE(status.ok());
    CHECK(found.ignored_count == 0);
    std::int64_t busy_ns = 0, grouped_ns = 0;
    for (const analysis::DeviceIdleness& device : found.devices) {
      CHECK(device.ledger.sum_ns() == device.ledger.wall_ns());
      for (const std::int64_t part_ns :
           {device.ledger.idle.host_ns, device.ledger.idle.call_ns, device.ledger.idle.device_ns,
            device.ledger.idle.unknown_ns}) {
        CHECK(part_ns >= 0);
      }
      busy_ns += device.ledger.any_busy_ns();
    }
    for (const analysis::GapGroup& group : found.groups) grouped_ns += group.total_ns;
    CHECK(grouped_ns == found.idle_ns());
    if (unions.count(name) > 0) CHECK(busy_ns == unions.at(name));
    report::Places places(recording.tables());
    const auto origins = report::joined_by_line(found.groups, places);
    const analysis::Findings findings = analysis::find_causes(recording, found, {});
    check_page({recording, found, findings, origins, status, 5}, places);
  }
  CHECK(opened_count > 30);
}
