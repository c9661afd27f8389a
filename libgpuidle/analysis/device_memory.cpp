// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/device_memory.h"

#include <algorithm>

namespace gpuidle::analysis {
namespace {

void raise(std::optional<MemoryPeak>* peak, std::uint64_t bytes, std::int64_t at_ns) {
  if (!*peak || (*peak)->bytes < bytes) *peak = MemoryPeak{bytes, at_ns};
}

// A sum that would overflow is of no real device: it stays where it is.
std::int64_t sum_of(std::int64_t sum, std::int64_t bytes) {
  std::int64_t next = 0;
  return __builtin_add_overflow(sum, bytes, &next) ? sum : next;
}

}  // namespace

std::optional<std::uint64_t> MemoryUse::headroom_bytes() const {
  if (!reserved || total_bytes < reserved->bytes || total_bytes == 0) return std::nullopt;
  return total_bytes - reserved->bytes;
}

void DeviceMemoryMeter::on_slice(const model::Slice& slice) {
  for (const model::MemoryEvent& event : slice.memory) {
    Meter& meter = meters_[event.device];
    ++meter.use.event_count;
    meter.sum_bytes = sum_of(meter.sum_bytes, event.bytes);
    meter.lowest_bytes = std::min(meter.lowest_bytes, meter.sum_bytes);
    if (meter.sum_bytes > meter.highest_bytes) {
      meter.highest_bytes = meter.sum_bytes;
      meter.highest_at_ns = event.start_ns;
    }
    if (!event.has_totals) continue;
    raise(&meter.use.allocated, event.allocated_bytes, event.start_ns);
    raise(&meter.use.reserved, event.reserved_bytes, event.start_ns);
    meter.use.end_allocated_bytes = event.allocated_bytes;
  }
}

std::vector<MemoryUse> DeviceMemoryMeter::finish(const model::Tables& tables) const {
  std::vector<MemoryUse> uses;
  for (const auto& [ordinal, meter] : meters_) {
    MemoryUse use = meter.use;
    use.device = ordinal;
    // What was live before was at least what was freed of it.
    use.least_peak.bytes = static_cast<std::uint64_t>(meter.highest_bytes) +
                           (std::uint64_t{0} - static_cast<std::uint64_t>(meter.lowest_bytes));
    use.least_peak.at_ns = meter.highest_at_ns;
    for (const model::Device& device : tables.devices()) {
      if (device.ordinal == ordinal) use.total_bytes = device.memory_bytes;
    }
    uses.push_back(use);
  }
  return uses;
}

}  // namespace gpuidle::analysis
