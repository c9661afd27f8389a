// SPDX-License-Identifier: Apache-2.0
//
// Algebra of half-open time intervals. Recorder, analysis and tests share these few operations, so
// that "busy" and "idle" mean the same everywhere. An interval set is a vector that is sorted,
// disjoint, not touching and without empty members: normalize() makes one, the rest keep it.
#pragma once

#include <cstdint>
#include <vector>

namespace gpuidle::timeline {

/// [start_ns, end_ns); empty if end_ns <= start_ns.
struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  std::int64_t length_ns() const { return end_ns > start_ns ? end_ns - start_ns : 0; }
  bool operator==(const Interval& other) const {
    return start_ns == other.start_ns && end_ns == other.end_ns;
  }
};

using IntervalSet = std::vector<Interval>;

/// Sorts, drops empty members and joins those that overlap or touch.
void normalize(IntervalSet* intervals);

/// Total length of a set in ns.
std::int64_t length_ns(const IntervalSet& set);

/// Length of the part of `within` that the set covers, in ns. O(log n + members met).
std::int64_t overlap_ns(const IntervalSet& set, const Interval& within);

/// The set algebra; every argument must be a set, every result is one. O(n + m).
IntervalSet unite(const IntervalSet& a, const IntervalSet& b);
IntervalSet intersect(const IntervalSet& a, const IntervalSet& b);
IntervalSet subtract(const IntervalSet& a, const IntervalSet& b);

/// What `set` leaves uncovered of `window`. O(log n + members met).
IntervalSet gaps(const IntervalSet& set, const Interval& window);

}  // namespace gpuidle::timeline
