// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/nsys.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libgpuidle/import/nsys_recording.h"
#include "libgpuidle/import/sqlite_file.h"

namespace gpuidle::import {
namespace {

using base::Result;
using base::Status;
using base::StatusCode;

// An export has the table of strings and, whatever was recorded, one of these.
bool is_export(const SqliteFile& file) {
  constexpr const char* kSigns[] = {"META_DATA_EXPORT",          "EXPORT_META_DATA",
                                    "TARGET_INFO_SYSTEM_ENV",    "TARGET_INFO_SESSION_START_TIME",
                                    "ANALYSIS_DETAILS",          "CUPTI_ACTIVITY_KIND_RUNTIME",
                                    "CUPTI_ACTIVITY_KIND_KERNEL"};
  return file.has("StringIds", "id") && file.has("StringIds", "value") &&
         std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&file](const char* sign) { return file.has(sign); });
}

Status not_an_export(const SqliteFile& file) {
  if (file.has("StringTable") && file.has("CUPTI_ACTIVITY_KIND_RUNTIME")) {
    return {StatusCode::wrong_format,
            fmt::format("cannot read {}: an SQLite database of nvprof or CUPTI's own, expected an "
                        "export of Nsight Systems; record with nsys, then 'nsys export --type "
                        "sqlite'",
                        file.path())};
  }
  constexpr std::size_t kShownTables = 5, kShownBytes = 40;
  std::string found;
  std::size_t shown = 0;
  for (const auto& [table, columns] : file.tables()) {
    if (++shown > kShownTables) break;
    std::string name = table.substr(0, kShownBytes);
    std::replace(name.begin(), name.end(), '\n', ' ');
    found += (found.empty() ? "" : ", ") + name;
  }
  if (shown > kShownTables) found += ", ...";
  return {StatusCode::wrong_format,
          fmt::format("cannot read {}: an SQLite database, but no export of Nsight Systems ({}); "
                      "expected what 'nsys export --type sqlite' writes",
                      file.path(), found.empty() ? "it has no tables" : "it has tables " + found)};
}

}  // namespace

Result<std::unique_ptr<model::Recording>> read_nsys(const std::string& path) {
  Result<std::unique_ptr<SqliteFile>> opened = SqliteFile::open(path);
  if (!opened.ok()) return opened.status();
  const std::unique_ptr<SqliteFile> file = opened.take();
  if (!is_export(*file)) return not_an_export(*file);
  NsysRecordingBuilder builder(*file);
  const Status status = builder.read();
  if (!status.ok()) return status;
  return std::unique_ptr<model::Recording>(builder.finish());
}

}  // namespace gpuidle::import
