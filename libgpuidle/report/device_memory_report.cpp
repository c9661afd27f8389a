// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/device_memory_report.h"

#include <fmt/format.h>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/text_header.h"

namespace gpuidle::report {
namespace {

using analysis::MemoryPeak;
using analysis::MemoryUse;

std::string format_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95; value /= 1024) ++unit;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string share_of(std::uint64_t part, std::uint64_t whole) {
  return format_share(static_cast<std::int64_t>(part), static_cast<std::int64_t>(whole));
}

std::string peaks_of(const ReportInput& input, const MemoryUse& use) {
  if (!use.allocated || !use.reserved) {
    return fmt::format(
        "at least {} in live blocks at the highest (what was live before the recording is not "
        "known); reserved: not known",
        format_bytes(use.least_peak.bytes));
  }
  return fmt::format("peak {} in live blocks at {}, {} at the end; peak {} reserved",
                     format_bytes(use.allocated->bytes), format_moment(input, use.allocated->at_ns),
                     format_bytes(use.end_allocated_bytes), format_bytes(use.reserved->bytes));
}

std::string headroom_of(const MemoryUse& use) {
  if (use.total_bytes == 0) return "the size of its memory is not recorded: head-room not known";
  const auto headroom = use.headroom_bytes();
  if (!headroom) {
    return fmt::format("of {}: head-room not known", format_bytes(use.total_bytes));
  }
  return fmt::format("of {}: {} of it reserved at the peak, head-room {} less what others use",
                     format_bytes(use.total_bytes), share_of(use.reserved->bytes, use.total_bytes),
                     format_bytes(*headroom));
}

void write_peak(const char* name, const std::optional<MemoryPeak>& peak, JsonWriter* json) {
  json->key(name);
  if (!peak) {
    json->null();
    return;
  }
  json->begin_object().field("bytes", peak->bytes).field("at_ns", peak->at_ns).end_object();
}

}  // namespace

std::string text_device_memory(const ReportInput& input, const Style& style) {
  if (input.memory == nullptr || input.memory->empty()) return {};
  std::string text = "\n" + style.heading("Device memory") +
                     " (of the framework's allocator, during the recording)\n";
  for (const MemoryUse& use : *input.memory) {
    text += wrap(fmt::format("GPU {}: {}", use.device, peaks_of(input, use)), "", 2);
    text += wrap(headroom_of(use), "  ", 2);
  }
  return text;
}

void write_device_memory(const ReportInput& input, JsonWriter* json) {
  json->key("device_memory").begin_array();
  if (input.memory != nullptr) {
    for (const MemoryUse& use : *input.memory) {
      json->begin_object().field("device", use.device).field("event_count", use.event_count);
      write_peak("peak_allocated", use.allocated, json);
      write_peak("peak_reserved", use.reserved, json);
      json->key("end_allocated_bytes");
      use.allocated ? json->value(use.end_allocated_bytes) : json->null();
      json->field("least_peak_bytes", use.least_peak.bytes);
      json->key("total_bytes");
      use.total_bytes != 0 ? json->value(use.total_bytes) : json->null();
      json->field("headroom_bytes", use.headroom_bytes());
      json->end_object();
    }
  }
  json->end_array();
}

}  // namespace gpuidle::report
