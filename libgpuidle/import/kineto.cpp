// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "libgpuidle/import/json_repair.h"
#include "libgpuidle/import/json_string.h"
#include "libgpuidle/import/kineto_json.h"
#include "libgpuidle/import/kineto_recording.h"

namespace gpuidle::import {
namespace {

using base::Result;
using base::Status;
using base::StatusCode;

constexpr std::size_t kMaxTextBytes = (std::size_t{4} << 30) - 4096;  // the parser's limit

Status wrong_format(const std::string& path, const std::string& found) {
  return {StatusCode::wrong_format, fmt::format("cannot read {}: {}", path, found)};
}

// Why a JSON text that is in order is no trace.
Status not_a_trace(const KinetoHeader& header, const std::string& path) {
  if (header.is_array) {
    return wrong_format(path, "a JSON array without trace events (no element has \"ph\")");
  }
  const auto has = [&header](std::string_view key) {
    return std::find(header.keys.begin(), header.keys.end(), key) != header.keys.end();
  };
  if (has("schema") && has("nodes")) {
    return wrong_format(path,
                        "a PyTorch execution trace, not a profiler trace: it has no traceEvents; "
                        "give the file of the same run that export_chrome_trace() wrote");
  }
  if (header.keys.empty()) return wrong_format(path, "an empty JSON object, it has no traceEvents");
  std::string keys;
  for (const std::string_view key : header.keys) {
    constexpr std::size_t kShownBytes = 40;
    keys += fmt::format("{}{}", keys.empty() ? "" : ", ", unescaped(key.substr(0, kShownBytes)));
  }
  return wrong_format(path, fmt::format("a JSON object without traceEvents (it has {})", keys));
}

std::vector<std::string> repair_warnings(const JsonRepair& repair) {
  std::vector<std::string> warnings;
  if (repair.is_cut_off) {
    warnings.push_back(
        fmt::format("the file ends early: what follows its last whole row is missing, {} bytes of "
                    "it were left out",
                    repair.dropped_bytes));
  }
  if (repair.bad_bytes != 0) {
    warnings.push_back(fmt::format(
        "{} bytes were no text (not UTF-8, or control characters): read as '?'", repair.bad_bytes));
  }
  return warnings;
}

}  // namespace

Result<std::unique_ptr<model::Recording>> read_kineto(PaddedText text, const std::string& path) {
  const std::size_t file_bytes = text.size();
  if (file_bytes > kMaxTextBytes) {
    return Status(
        StatusCode::io_error,
        fmt::format("cannot read {}: {} bytes of JSON, at most {} can be read; record fewer "
                    "steps per file",
                    path, file_bytes, kMaxTextBytes));
  }
  auto builder = std::make_unique<KinetoRecordingBuilder>();
  KinetoWalk walk = walk_kineto(text, *builder);
  std::vector<std::string> warnings;
  if (!walk.error.empty()) {
    const JsonRepair repair = repair_json(text);
    if (repair.is_cut_off || repair.bad_bytes != 0) {
      warnings = repair_warnings(repair);
      builder = std::make_unique<KinetoRecordingBuilder>();
      walk = walk_kineto(text, *builder);
    }
    if (repair.is_cut_off && (!walk.is_started || !walk.header.has_rows)) {
      return Status(
          StatusCode::truncated,
          fmt::format("cannot read {}: the JSON ends at byte {} before the first whole row "
                      "of traceEvents",
                      path, file_bytes));
    }
  }
  if (!walk.error.empty() && !walk.header.has_rows) {
    return Status(StatusCode::corrupt,
                  fmt::format("cannot read {}: damaged JSON before the first row "
                              "of traceEvents ({})",
                              path, walk.error));
  }
  if (!walk.error.empty()) {
    warnings.push_back(fmt::format(
        "damaged JSON in the row at byte {} of {}: the rows after it were left out ({})",
        walk.error_offset, file_bytes, walk.error));
  }
  if (!walk.header.has_rows) return not_a_trace(walk.header, path);
  return std::unique_ptr<model::Recording>(builder->finish(walk.header, std::move(warnings)));
}

}  // namespace gpuidle::import
