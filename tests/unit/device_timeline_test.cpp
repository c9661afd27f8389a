// SPDX-License-Identifier: Apache-2.0
//
// Gaps as the recorder sees them while the program runs: any order of arrival, watermarks anywhere.
#include "libgpuidle/timeline/device_timeline.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "libgpuidle/timeline/intervals.h"

using gpuidle::model::RecordedGap;
using namespace gpuidle::timeline;

namespace {

struct Op {
  std::int64_t start_ns, end_ns;
  std::uint32_t correlation;
};

std::vector<Op> random_ops(std::mt19937& random, int count) {
  std::vector<Op> ops;
  std::int64_t start_ns = 1000;
  for (int i = 0; i < count; ++i) {
    start_ns += static_cast<std::int64_t>(random() % 20);
    ops.push_back({start_ns, start_ns + static_cast<std::int64_t>(random() % 15),
                   static_cast<std::uint32_t>(i + 1)});
  }
  return ops;
}

bool same(const std::vector<RecordedGap>& a, const std::vector<RecordedGap>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.start_ns == y.start_ns && x.end_ns == y.end_ns && x.device == y.device &&
           x.closing_correlation == y.closing_correlation;
  });
}

}  // namespace

TEST_CASE("a gap lies between the busy union and the operation that ends it", "[timeline][unit]") {
  DeviceTimeline timeline(3);
  std::vector<RecordedGap> closed;
  timeline.add(400, 500, 9);
  timeline.add(100, 300, 7);
  timeline.add(150, 200, 8);
  timeline.advance(400, &closed);
  CHECK(closed.empty());
  timeline.advance(401, &closed);
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].start_ns == 300);
  CHECK(closed[0].end_ns == 400);
  CHECK(closed[0].device == 3);
  CHECK(closed[0].closing_correlation == 9);
  CHECK(timeline.busy_ns() == 300);
  CHECK(timeline.idle_ns() == 100);
  CHECK(timeline.first_ns() == 100);
  CHECK(timeline.last_ns() == 500);
}

TEST_CASE("operations that start together name the lowest known correlation", "[timeline][unit]") {
  DeviceTimeline timeline;
  std::vector<RecordedGap> closed;
  timeline.add(0, 10, 1);
  timeline.add(20, 30, 0);
  timeline.add(20, 22, 6);
  timeline.add(20, 40, 5);
  timeline.finish(&closed);
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].closing_correlation == 5);
}

TEST_CASE("order of arrival and watermarks change nothing while nothing is late",
          "[timeline][unit]") {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    std::vector<Op> ops = random_ops(random, 60);
    std::vector<RecordedGap> expected, found;
    DeviceTimeline in_order, shuffled;
    IntervalSet busy;
    for (const Op& op : ops) {
      in_order.add(op.start_ns, op.end_ns, op.correlation);
      busy.push_back({op.start_ns, op.end_ns});
    }
    in_order.finish(&expected);
    // Batches of 20 arrive in random order within themselves, each followed by its watermark.
    for (std::size_t first = 0; first < ops.size(); first += 20) {
      std::shuffle(ops.begin() + static_cast<std::ptrdiff_t>(first),
                   ops.begin() + static_cast<std::ptrdiff_t>(first + 20), random);
      std::int64_t watermark_ns = 0;
      for (std::size_t i = first; i < first + 20; ++i) {
        shuffled.add(ops[i].start_ns, ops[i].end_ns, ops[i].correlation);
        watermark_ns = std::max(watermark_ns, ops[i].start_ns);
      }
      shuffled.advance(watermark_ns, &found);
    }
    shuffled.finish(&found);
    normalize(&busy);
    REQUIRE(same(found, expected));
    REQUIRE(shuffled.late_count() == 0);
    REQUIRE(shuffled.busy_ns() == length_ns(busy));
    REQUIRE(shuffled.busy_ns() + shuffled.idle_ns() == shuffled.last_ns() - shuffled.first_ns());
  }
}

TEST_CASE("what arrives after its gap was closed is counted as late", "[timeline][unit]") {
  DeviceTimeline timeline;
  std::vector<RecordedGap> closed;
  timeline.add(0, 10, 1);
  timeline.add(50, 60, 2);
  timeline.advance(100, &closed);
  REQUIRE(closed.size() == 1);

  SECTION("an operation inside the closed gap leaves the totals as they were reported") {
    timeline.add(20, 30, 3);
    timeline.advance(100, &closed);
    CHECK(timeline.late_count() == 1);
    CHECK(timeline.idle_ns() == 40);
  }
  SECTION("an operation behind the last one is merged though it is behind the watermark") {
    timeline.add(70, 80, 3);
    timeline.advance(100, &closed);
    CHECK(timeline.late_count() == 0);
    REQUIRE(closed.size() == 2);
    CHECK(closed[1].start_ns == 60);
    CHECK(closed[1].end_ns == 70);
  }
}

TEST_CASE("without a watermark the memory stays bounded and no gap is lost", "[timeline][unit]") {
  constexpr std::int64_t kOps = 3 * static_cast<std::int64_t>(DeviceTimeline::kMaxPending);
  DeviceTimeline timeline;
  std::vector<RecordedGap> closed;
  std::size_t most_pending = 0;
  for (std::int64_t i = 0; i < kOps; ++i) {
    timeline.add(i * 10, i * 10 + 4, 1);
    most_pending = std::max(most_pending, timeline.pending_count());
  }
  timeline.finish(&closed);
  CHECK(most_pending <= DeviceTimeline::kMaxPending);
  CHECK(closed.size() == static_cast<std::size_t>(kOps - 1));
  CHECK(timeline.busy_ns() == kOps * 4);
}

TEST_CASE("many operations with one start do not defeat the bound", "[timeline][unit]") {
  DeviceTimeline timeline;
  for (std::size_t i = 0; i < 2 * DeviceTimeline::kMaxPending; ++i) timeline.add(5, 9, 1);
  CHECK(timeline.pending_count() < DeviceTimeline::kMaxPending);
}
