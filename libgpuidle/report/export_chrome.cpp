// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/export_chrome.h"

#include <fmt/format.h>

#include <iterator>

#include "libgpuidle/report/json_writer.h"

namespace gpuidle::report {
namespace {

// Devices are processes to a viewer; Linux gives no process a number as high as these.
constexpr std::uint32_t kDevicePids = 1'000'000'000;

std::string quoted(std::string_view text) {
  std::string document = JsonWriter().value(text).take();
  document.pop_back();  // the newline
  return document;
}

// Microseconds with all nanoseconds.
void append_time(std::int64_t ns, std::string* out) {
  fmt::format_to(std::back_inserter(*out), "{}.{:03}", ns / 1000, ns % 1000);
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
    fmt::format_to(std::back_inserter(out), "\"{}", facts[i].key);
    if (repeated > 0) fmt::format_to(std::back_inserter(out), "_{}", repeated + 1);
    out += "\":";
    if (const auto* number = std::get_if<std::int64_t>(&facts[i].value)) {
      fmt::format_to(std::back_inserter(out), "{}", *number);
    } else {
      out += quoted(std::get<std::string_view>(facts[i].value));
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
  fmt::format_to(std::back_inserter(out),
                 "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":", row_pids_[slice.row], slice.row);
  append_time(slice.start_ns, &out);
  out += ",\"dur\":";
  append_time(slice.end_ns - slice.start_ns, &out);
  fmt::format_to(std::back_inserter(out), ",\"cat\":\"{}\",\"name\":{}", slice.category,
                 names_[slice.name]);
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
