// SPDX-License-Identifier: Apache-2.0
//
// What remains of a gap once it is known in full: its share in the totals by origin, by length and
// by part, and a place among the largest. Fed by the gap analysis; feeds the result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libgpuidle/analysis/idleness.h"

namespace gpuidle::analysis {

/// Context: tool. Memory is bounded by the number of distinct origins and `largest`.
class GapTotals {
 public:
  explicit GapTotals(std::size_t largest, GapSink* sink = nullptr)
      : largest_limit_(largest), sink_(sink) {}

  /// Counts a gap in the groups and the largest ones, and in the sums of its device.
  void add(const Gap& gap, bool is_warm_up, DeviceIdleness* device);

  /// In the order of rank().
  std::vector<GapGroup> take_groups();
  /// In the order of ranks_before().
  std::vector<Gap> take_largest();

 private:
  struct Key {
    std::uint64_t place;   // api << 32 | stack
    std::uint64_t device;  // device << 16 | cause << 8 | opener
    bool operator==(const Key& other) const {
      return place == other.place && device == other.device;
    }
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      const std::uint64_t mixed =
          (key.place ^ (key.device * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U;
      return static_cast<std::size_t>(mixed ^ (mixed >> 32));
    }
  };

  GapGroup& group_of(const Gap& gap);
  void keep_if_large(const Gap& gap);

  std::size_t largest_limit_;
  GapSink* sink_;             // receives each gap as well; may be nullptr
  std::vector<Gap> largest_;  // a heap with the smallest on top
  std::unordered_map<Key, GapGroup, KeyHash> groups_;
  // Loops come back to the same few places: their groups are found here without a search.
  struct Recent {
    Key key{};
    GapGroup* group = nullptr;  // rows of an unordered_map stay where they are
  };
  std::array<Recent, 256> recent_{};
};

}  // namespace gpuidle::analysis
