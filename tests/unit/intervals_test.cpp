// SPDX-License-Identifier: Apache-2.0
//
// The interval algebra against a bitmap that is too simple to be wrong.
#include "libgpuidle/timeline/intervals.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace gpuidle::timeline;

namespace {

constexpr int kTicks = 64;
using Bitmap = std::vector<bool>;

Bitmap draw(const IntervalSet& intervals) {
  Bitmap bits(kTicks, false);
  for (const Interval& interval : intervals) {
    for (std::int64_t t = interval.start_ns; t < interval.end_ns; ++t) {
      bits[static_cast<std::size_t>(t)] = true;
    }
  }
  return bits;
}

std::int64_t count(const Bitmap& bits) { return std::count(bits.begin(), bits.end(), true); }

IntervalSet random_intervals(std::mt19937& random) {
  IntervalSet intervals;
  for (int n = static_cast<int>(random() % 8); n > 0; --n) {
    const auto start = static_cast<std::int64_t>(random() % kTicks);
    const auto end = start + static_cast<std::int64_t>(random() % 12);
    intervals.push_back({start, std::min<std::int64_t>(end, kTicks)});
  }
  return intervals;
}

bool is_set(const IntervalSet& set) {
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (set[i].length_ns() == 0) return false;
    if (i > 0 && set[i - 1].end_ns >= set[i].start_ns) return false;
  }
  return true;
}

template <typename Operation>
Bitmap combine(const Bitmap& a, const Bitmap& b, Operation operation) {
  Bitmap bits(kTicks);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = operation(a[i], b[i]);
  return bits;
}

}  // namespace

TEST_CASE("joining intervals keeps exactly the covered ticks", "[timeline][unit]") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    IntervalSet intervals = random_intervals(random);
    const Bitmap drawn = draw(intervals);
    normalize(&intervals);
    REQUIRE(is_set(intervals));
    REQUIRE(draw(intervals) == drawn);
    REQUIRE(length_ns(intervals) == count(drawn));
  }
}

TEST_CASE("union, intersection and difference agree with a bitmap", "[timeline][unit]") {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    IntervalSet a = random_intervals(random), b = random_intervals(random);
    normalize(&a);
    normalize(&b);
    const Bitmap bits_a = draw(a), bits_b = draw(b);
    const IntervalSet united = unite(a, b), common = intersect(a, b), rest = subtract(a, b);
    REQUIRE(is_set(united));
    REQUIRE(is_set(common));
    REQUIRE(is_set(rest));
    REQUIRE(draw(united) == combine(bits_a, bits_b, [](bool x, bool y) { return x || y; }));
    REQUIRE(draw(common) == combine(bits_a, bits_b, [](bool x, bool y) { return x && y; }));
    REQUIRE(draw(rest) == combine(bits_a, bits_b, [](bool x, bool y) { return x && !y; }));
  }
}

TEST_CASE("covered and uncovered parts of a window add up to it", "[timeline][unit]") {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    IntervalSet set = random_intervals(random);
    normalize(&set);
    const auto start = static_cast<std::int64_t>(random() % kTicks);
    const Interval window{start, start + static_cast<std::int64_t>(random() % 20)};
    REQUIRE(overlap_ns(set, window) == length_ns(intersect(set, {window})));
    REQUIRE(overlap_ns(set, window) + length_ns(gaps(set, window)) == window.length_ns());
  }
}
