// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/open_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "libgpuidle/import/gzip.h"
#include "libgpuidle/import/kineto.h"
#include "libgpuidle/import/nsys.h"
#include "libgpuidle/import/padded_text.h"
#include "libgpuidle/import/sqlite_file.h"
#include "libgpuidle/trace/trace_reader.h"

namespace gpuidle::import {
namespace {

using base::Result;
using base::Status;
using base::StatusCode;
using RecordingResult = Result<std::unique_ptr<model::Recording>>;

constexpr std::string_view kExpected =
    "expected a gpuidle trace, a PyTorch profiler (Kineto) trace, JSON or gzip, or what 'nsys "
    "export "
    "--type sqlite' writes";

struct Signature {
  std::string_view first_bytes;
  const char* meaning;
};
using namespace std::string_view_literals;
constexpr Signature kSignatures[] = {
    {"SQLite format 3\0"sv, "an SQLite database in gzip: unpack it first (gzip -d)"},
    {"PK\x03\x04"sv, "a zip archive: unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, "zstd-compressed: unpack it first (zstd -d)"},
    {"\xfd"
     "7zXZ\0"sv,
     "xz-compressed: unpack it first (xz -d)"},
    {"BZh"sv, "bzip2-compressed: unpack it first (bzip2 -d)"},
    {"\x7f"
     "ELF"sv,
     "a program or library, not a recording"},
    {"\xff\xfe"sv, "UTF-16 text: convert it to UTF-8 first"},
    {"\xfe\xff"sv, "UTF-16 text: convert it to UTF-8 first"},
    {"\x1f\x8b"sv, "gzip in gzip: unpack it first"},
};

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// What a content that is none of the known formats seems to be, for the message.
std::string describe(std::string_view content) {
  for (const Signature& known : kSignatures) {
    if (starts_with(content, known.first_bytes)) return known.meaning;
  }
  const std::string_view head = content.substr(0, 256);
  const bool is_text = std::none_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && c != '\t' && c != '\n' && c != '\r';
  });
  if (is_text) return fmt::format("text that is no JSON; {}", kExpected);
  std::string bytes;
  for (const char c : content.substr(0, 8)) {
    bytes += fmt::format("{}{:02x}", bytes.empty() ? "" : " ", static_cast<unsigned char>(c));
  }
  return fmt::format("binary data of an unknown kind (first bytes {}); {}", bytes, kExpected);
}

Status wrong_format(const std::string& path, std::string_view found) {
  return {StatusCode::wrong_format, fmt::format("cannot read {}: {}", path, found)};
}

// A byte order mark is white space to us; the parser would refuse it.
void blank_byte_order_mark(PaddedText& text) {
  if (!starts_with(text.view(), "\xef\xbb\xbf")) return;
  std::fill(text.data(), text.data() + 3, ' ');
}

RecordingResult read_content(PaddedText content, const std::string& path, bool was_packed) {
  if (trace::is_trace(content.data(), content.size())) {
    return wrong_format(path, "a gzip-compressed gpuidle trace: unpack it first (gzip -d)");
  }
  blank_byte_order_mark(content);
  const std::size_t first = content.view().find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    const std::string found = content.size() == 0 ? "empty" : "blank";
    return wrong_format(
        path, fmt::format("{} file{}; {}", found, was_packed ? " in gzip" : "", kExpected));
  }
  const char opening = content.view()[first];
  if (opening != '{' && opening != '[') return wrong_format(path, describe(content.view()));
  return read_kineto(std::move(content), path);
}

}  // namespace

RecordingResult open_recording(const std::string& path) {
  // Our own reader and SQLite open the file by themselves, so only its head is read here.
  constexpr std::size_t kHeadBytes = 64;
  const Result<PaddedText> head = read_file(path, kHeadBytes);
  if (!head.ok()) return head.status();
  const std::string_view first_bytes = head.value().view();
  if (trace::is_trace(first_bytes.data(), first_bytes.size())) return trace::open_trace(path);
  if (is_sqlite(first_bytes)) return read_nsys(path);
  Result<PaddedText> file = read_file(path);
  if (!file.ok()) return file.status();
  PaddedText content = file.take();
  if (!is_gzip(content.view())) return read_content(std::move(content), path, false);
  Result<PaddedText> unpacked = gunzip(content.view(), path);
  if (!unpacked.ok()) return unpacked.status();
  content = PaddedText();
  return read_content(unpacked.take(), path, true);
}

}  // namespace gpuidle::import
