// SPDX-License-Identifier: Apache-2.0
//
// How much memory of each device a program's allocator held, from the allocations and frees in a
// recording. Fed with slices beside the analysis; text and JSON reports are made from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "libgpuidle/model/recording.h"

namespace gpuidle::analysis {

/// A highest value and when it was first reached.
struct MemoryPeak {
  std::uint64_t bytes = 0;
  std::int64_t at_ns = 0;
};

/// Of one device, inside the recording alone: what was higher before or after it is not seen.
struct MemoryUse {
  std::uint32_t device = 0;
  std::uint64_t event_count = 0;          ///< allocations and frees
  std::optional<MemoryPeak> allocated;    ///< in live blocks; empty: the source tells no totals
  std::optional<MemoryPeak> reserved;     ///< taken from the device, cached free blocks included
  std::uint64_t end_allocated_bytes = 0;  ///< after the last event with totals
  /// At some moment at least this much was live, whatever was live before the recording: the sums
  /// of the events seen, less the lowest of these sums where frees outweighed allocations.
  MemoryPeak least_peak;
  std::uint64_t total_bytes = 0;  ///< of the device; 0 = not known

  /// Of the device's total, what the allocator never took. Other programs may use it.
  std::optional<std::uint64_t> headroom_bytes() const;
};

/// Give it to analyze() as Options::also, then finish(). Context: tool.
class DeviceMemoryMeter : public model::SliceVisitor {
 public:
  void on_slice(const model::Slice& slice) override;
  /// By ordinal; only devices with events.
  std::vector<MemoryUse> finish(const model::Tables& tables) const;

 private:
  struct Meter {
    MemoryUse use;
    std::int64_t sum_bytes = 0;
    std::int64_t lowest_bytes = 0, highest_bytes = 0;  // of sum_bytes, 0 at the beginning included
    std::int64_t highest_at_ns = 0;
  };
  std::map<std::uint32_t, Meter> meters_;
};

}  // namespace gpuidle::analysis
