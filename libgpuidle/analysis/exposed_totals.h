// SPDX-License-Identifier: Apache-2.0
//
// Adds up, by place in the program, the copies and communication of all devices and how much of
// their time no kernel hid. Fed by the analyses of the devices; feeds the findings on transfers.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libgpuidle/analysis/frame_work.h"
#include "libgpuidle/analysis/idleness.h"

namespace gpuidle::analysis {

/// Context: tool. Memory is bounded by the number of distinct places.
class ExposedTotals {
 public:
  /// Counts an operation; its owner number, for expose(). `call` may be nullptr.
  std::uint32_t add(const model::DeviceActivity& op, const model::ApiCall* call, FrameWork* frames);
  void expose(std::uint32_t owner, std::int64_t ns) { groups_[owner].exposed_ns += ns; }

  /// Most exposed time first; groups without any are left out.
  std::vector<ExposedGroup> take();

 private:
  struct Key {
    std::uint64_t place;  // api << 32 | stack
    std::uint32_t kind;   // activity kind, copy kind and memory kind
    bool operator==(const Key& other) const { return place == other.place && kind == other.kind; }
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      const std::uint64_t mixed =
          (key.place ^ (key.kind * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U;
      return static_cast<std::size_t>(mixed ^ (mixed >> 32));
    }
  };
  std::unordered_map<Key, std::uint32_t, KeyHash> index_;
  std::vector<ExposedGroup> groups_;
};

}  // namespace gpuidle::analysis
