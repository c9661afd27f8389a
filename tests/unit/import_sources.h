// SPDX-License-Identifier: Apache-2.0
//
// The table of recordings made by other people (SOURCES.md beside them): its rows, as the import
// tests and the import benchmark read them.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace gpuidle::test {

struct SourceRow {
  std::string file;  ///< relative to the folder of the table
  std::uint64_t kernels = 0, memcpys = 0, memsets = 0, devices = 0, streams = 0;
  std::string span_ms;                   ///< three decimals
  std::optional<std::int64_t> union_ns;  ///< none: no device events
  std::string notes;

  bool is_json() const { return has_suffix(".json") || has_suffix(".json.gz"); }
  bool is_sqlite() const { return has_suffix(".sqlite"); }
  bool is_wrong_format() const { return notes.find("WRONG FORMAT") != std::string::npos; }

 private:
  bool has_suffix(const std::string& suffix) const {
    return file.size() > suffix.size() &&
           file.compare(file.size() - suffix.size(), suffix.size(), suffix) == 0;
  }
};

/// The folder with SOURCES.md: $GPUIDLE_SHARED_DATA/traces, or the one the build was told.
inline std::string sources_folder() {
  const char* folder = std::getenv("GPUIDLE_SHARED_DATA");
  return std::string(folder != nullptr ? folder : GPUIDLE_SHARED_DATA) + "/traces";
}

/// All rows of the table in `folder`; empty if there is none.
inline std::vector<SourceRow> read_sources(const std::string& folder) {
  std::vector<SourceRow> rows;
  std::ifstream table(folder + "/SOURCES.md");
  for (std::string line; std::getline(table, line);) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, '|');) {
      const auto first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    // | file | repository | path | licence | producer | counts | GPUs / streams | span | union |
    // ...
    if (cells.size() < 12 || cells[1].find('/') == std::string::npos) continue;
    SourceRow row;
    row.file = cells[1];
    char slash = 0;
    std::istringstream(cells[6]) >> row.kernels >> slash >> row.memcpys >> slash >> row.memsets;
    std::istringstream(cells[7]) >> row.devices >> slash >> row.streams;
    row.span_ms = cells[8];
    if (cells[9] != "-") row.union_ns = std::stoll(cells[9]);
    row.notes = cells[11];
    rows.push_back(row);
  }
  return rows;
}

}  // namespace gpuidle::test
