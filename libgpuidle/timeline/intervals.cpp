// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/timeline/intervals.h"

#include <algorithm>
#include <cstddef>

namespace gpuidle::timeline {
namespace {

void append_joined(const Interval& next, IntervalSet* set) {
  if (next.length_ns() == 0) return;
  if (!set->empty() && next.start_ns <= set->back().end_ns) {
    set->back().end_ns = std::max(set->back().end_ns, next.end_ns);
  } else {
    set->push_back(next);
  }
}

}  // namespace

void normalize(IntervalSet* intervals) {
  std::sort(intervals->begin(), intervals->end(), [](const Interval& a, const Interval& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns < b.end_ns;
  });
  IntervalSet joined;
  for (const Interval& interval : *intervals) append_joined(interval, &joined);
  intervals->swap(joined);
}

std::int64_t length_ns(const IntervalSet& set) {
  std::int64_t total_ns = 0;
  for (const Interval& interval : set) total_ns += interval.length_ns();
  return total_ns;
}

std::int64_t overlap_ns(const IntervalSet& set, const Interval& within) {
  auto it = std::partition_point(set.begin(), set.end(), [&](const Interval& interval) {
    return interval.end_ns <= within.start_ns;
  });
  std::int64_t total_ns = 0;
  for (; it != set.end() && it->start_ns < within.end_ns; ++it) {
    total_ns +=
        Interval{std::max(it->start_ns, within.start_ns), std::min(it->end_ns, within.end_ns)}
            .length_ns();
  }
  return total_ns;
}

IntervalSet unite(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet united;
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool take_a = j == b.size() || (i < a.size() && a[i].start_ns <= b[j].start_ns);
    append_joined(take_a ? a[i++] : b[j++], &united);
  }
  return united;
}

IntervalSet intersect(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet common;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    append_joined({std::max(a[i].start_ns, b[j].start_ns), std::min(a[i].end_ns, b[j].end_ns)},
                  &common);
    if (a[i].end_ns < b[j].end_ns) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

IntervalSet subtract(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet rest;
  std::size_t j = 0;
  for (const Interval& whole : a) {
    std::int64_t from_ns = whole.start_ns;
    while (j < b.size() && b[j].end_ns <= from_ns) ++j;
    for (std::size_t k = j; k < b.size() && b[k].start_ns < whole.end_ns; ++k) {
      append_joined({from_ns, b[k].start_ns}, &rest);
      from_ns = b[k].end_ns;
    }
    append_joined({from_ns, whole.end_ns}, &rest);
  }
  return rest;
}

IntervalSet gaps(const IntervalSet& set, const Interval& window) {
  IntervalSet rest;
  std::int64_t from_ns = window.start_ns;
  auto it = std::partition_point(set.begin(), set.end(), [&](const Interval& interval) {
    return interval.end_ns <= window.start_ns;
  });
  for (; it != set.end() && it->start_ns < window.end_ns; ++it) {
    append_joined({from_ns, it->start_ns}, &rest);
    from_ns = it->end_ns;
  }
  append_joined({from_ns, window.end_ns}, &rest);
  return rest;
}

}  // namespace gpuidle::timeline
