// SPDX-License-Identifier: Apache-2.0
//
// The newest spans of one kind of thing (markers of one thread, overheads), asked how much of a gap
// they cover while a recording streams by. Fed in order of start; feeds the verdicts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {

/// Context: tool. Memory is fixed; what is too old is forgotten.
template <typename Label>
class SpanRing {
 public:
  /// Loops have a handful of spans per step, and gaps are asked about within a step.
  static constexpr std::size_t kSpans = 1024;

  void add(const timeline::Interval& span, Label label) {
    if (spans_.size() < kSpans) {
      spans_.push_back({span, label});
    } else {
      spans_[added_ % kSpans] = {span, label};
    }
    ++added_;
    longest_ns_ = std::max(longest_ns_, span.length_ns());
  }

  /// Calls visit(label, covered ns) for each span that meets `within`, newest first.
  template <typename Visit>
  void each_over(const timeline::Interval& within, Visit visit) const {
    const std::uint64_t oldest = added_ - spans_.size();
    for (std::uint64_t i = added_; i > oldest; --i) {
      const Row& row = spans_[(i - 1) % kSpans];
      if (row.span.start_ns + longest_ns_ <= within.start_ns) return;
      const std::int64_t covered_ns =
          std::min(row.span.end_ns, within.end_ns) - std::max(row.span.start_ns, within.start_ns);
      if (covered_ns > 0) visit(row.label, covered_ns);
    }
  }

 private:
  struct Row {
    timeline::Interval span;
    Label label;
  };
  std::vector<Row> spans_;
  std::uint64_t added_ = 0;
  std::int64_t longest_ns_ = 0;
};

}  // namespace gpuidle::analysis
