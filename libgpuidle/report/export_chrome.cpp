// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/export_chrome.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "libgpuidle/report/json_writer.h"

namespace gpuidle::report {
namespace {

// Devices are processes to a viewer; Linux gives no process a number as high as these.
constexpr std::uint32_t kDevicePids = 1'000'000'000;

// Most strings need no escapes, and a document of its own for each is what an export would spend
// most of its time on.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; });
}

void append_quoted(std::string_view text, std::string* out) {
  if (is_plain(text)) {
    out->append(1, '"').append(text).append(1, '"');
    return;
  }
  std::string document = JsonWriter().value(text).take();
  document.pop_back();  // the newline
  *out += document;
}

std::string quoted(std::string_view text) {
  std::string result;
  append_quoted(text, &result);
  return result;
}

void append_number(std::int64_t number, std::string* out) {
  const fmt::format_int text(number);
  out->append(text.data(), text.size());
}

// Microseconds with all nanoseconds; `ns` is not negative.
void append_time(std::int64_t ns, std::string* out) {
  append_number(ns / 1000, out);
  *out += '.';
  for (const std::int64_t place : {100, 10, 1}) {
    *out += static_cast<char>('0' + ns % 1000 / place % 10);
  }
}

}  // namespace

void ChromeTimeline::begin(const std::vector<TimelineFact>& facts) {
  buffer_.text() +=
      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"about\":"
      "\"times in microseconds since the begin of the recording\"";
  add_facts(facts);
  buffer_.text() += "},\"traceEvents\":[";
}

void ChromeTimeline::add_facts(const std::vector<TimelineFact>& facts) {
  std::string& out = buffer_.text();
  std::size_t repeated = 0;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (out.back() != '{') out += ',';
    // A key may come more than once (warnings): JSON wants each once.
    repeated = i > 0 && facts[i].key == facts[i - 1].key ? repeated + 1 : 0;
    out.append(1, '"').append(facts[i].key);
    if (repeated > 0) fmt::format_to(std::back_inserter(out), "_{}", repeated + 1);
    out += "\":";
    if (const auto* number = std::get_if<std::int64_t>(&facts[i].value)) {
      append_number(*number, &out);
    } else {
      append_quoted(std::get<std::string_view>(facts[i].value), &out);
    }
  }
}

void ChromeTimeline::begin_event() {
  buffer_.flush_if_full();
  buffer_.text() += has_events_ ? ",\n" : "\n";
  has_events_ = true;
}

void ChromeTimeline::add_metadata(std::string_view kind, std::uint32_t pid, std::uint32_t tid,
                                  std::string_view name, std::uint32_t rank) {
  begin_event();
  fmt::format_to(std::back_inserter(buffer_.text()),
                 "{{\"ph\":\"M\",\"name\":\"{}_name\",\"pid\":{},\"tid\":{},"
                 "\"args\":{{\"name\":{}}}}}",
                 kind, pid, tid, quoted(name));
  begin_event();
  fmt::format_to(std::back_inserter(buffer_.text()),
                 "{{\"ph\":\"M\",\"name\":\"{}_sort_index\",\"pid\":{},\"tid\":{},"
                 "\"args\":{{\"sort_index\":{}}}}}",
                 kind, pid, tid, rank);
}

void ChromeTimeline::add_group(const TimelineGroup& group) {
  pids_.resize(group.id + 1);
  pids_[group.id] = group.pid != 0 ? group.pid : kDevicePids + group.id;
  add_metadata("process", pids_[group.id], 0, group.name, group.id);
}

void ChromeTimeline::add_row(const TimelineRow& row) {
  row_pids_.resize(row.id + 1);
  row_pids_[row.id] = pids_[row.group];
  add_metadata("thread", pids_[row.group], row.id, row.name, row.rank);
}

void ChromeTimeline::add_name(std::string_view name) { names_.push_back(quoted(name)); }

void ChromeTimeline::add_slice(const TimelineSlice& slice) {
  begin_event();
  std::string& out = buffer_.text();
  out += "{\"ph\":\"X\",\"pid\":";
  append_number(row_pids_[slice.row], &out);
  out += ",\"tid\":";
  append_number(slice.row, &out);
  out += ",\"ts\":";
  append_time(slice.start_ns, &out);
  out += ",\"dur\":";
  append_time(slice.end_ns - slice.start_ns, &out);
  out.append(",\"cat\":\"").append(slice.category).append("\",\"name\":");
  out += names_[slice.name];
  if (slice.facts != nullptr && !slice.facts->empty()) {
    out += ",\"args\":{";
    add_facts(*slice.facts);
    out += '}';
  }
  out += '}';
}

void ChromeTimeline::end() {
  buffer_.text() += "\n]}\n";
  buffer_.flush();
}

}  // namespace gpuidle::report
