// SPDX-License-Identifier: Apache-2.0
//
// Viewers draw the slices of one row one inside the other; slices that overlap in any other way
// need rows of their own. Tells in which of several parallel lanes a slice fits. Fed with slices in
// order of their start by the timeline export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpuidle::report {

/// Memory is bounded by kMaxLanes and kMaxDepth. Context: tool.
class ExportLanes {
 public:
  static constexpr std::size_t kMaxLanes = 128;
  static constexpr std::size_t kMaxDepth = 256;

  /// `can_nest`: a slice may lie inside an earlier one of the same lane.
  explicit ExportLanes(bool can_nest) : can_nest_(can_nest) {}

  /// The first lane in which [start_ns, end_ns) fits; empty if there is none. Starts ascend.
  std::optional<std::size_t> place(std::int64_t start_ns, std::int64_t end_ns) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      std::vector<std::int64_t>& open = lanes_[i];
      while (!open.empty() && open.back() <= start_ns) open.pop_back();
      const bool fits =
          open.empty() || (can_nest_ && end_ns <= open.back() && open.size() < kMaxDepth);
      if (!fits) continue;
      open.push_back(end_ns);
      return i;
    }
    if (lanes_.size() == kMaxLanes) return std::nullopt;
    lanes_.push_back({end_ns});
    return lanes_.size() - 1;
  }

 private:
  bool can_nest_;
  std::vector<std::vector<std::int64_t>> lanes_;  // ends of the open slices, outermost first
};

}  // namespace gpuidle::report
