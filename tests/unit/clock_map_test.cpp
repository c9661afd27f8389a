// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/timeline/clock_map.h"

#include <catch2/catch.hpp>

namespace gpuidle::timeline {

TEST_CASE("a constant offset is taken off exactly", "[timeline][unit]") {
  ClockMap map;
  map.add({1'700'000'000'000'000'000, 5'000'000'000});
  map.add({1'700'000'001'000'000'000, 6'000'000'000});
  CHECK(map.to_host(1'700'000'000'000'000'000) == 5'000'000'000);
  CHECK(map.to_host(1'700'000'000'500'000'123) == 5'500'000'123);
  CHECK(map.to_host(1'699'999'999'000'000'000) == 4'000'000'000);   // before the first pair
  CHECK(map.to_host(1'700'000'009'000'000'000) == 14'000'000'000);  // after the last
  CHECK(map.step_count() == 0);
}

TEST_CASE("drift between two pairs is interpolated", "[timeline][unit]") {
  ClockMap map;
  map.add({0, 1'000});
  map.add({1'000'000'000, 1'000'101'000});  // 100 us fast in a second
  CHECK(map.to_host(500'000'000) == 500'051'000);
  CHECK(map.step_count() == 0);
}

TEST_CASE("converted times never run backwards while the clock drifts", "[timeline][unit]") {
  ClockMap map;
  std::int64_t host_ns = 0;
  for (int i = 0; i < 100; ++i) {
    map.add({i * 1'000'000, host_ns});
    host_ns += 1'000'000 + (i % 2 == 0 ? 40 : -40);  // noise of taking the pair
  }
  std::int64_t last_ns = -1'000'000'000;
  for (std::int64_t device_ns = -5'000; device_ns < 101'000'000; device_ns += 997) {
    const std::int64_t now_ns = map.to_host(device_ns);
    REQUIRE(now_ns >= last_ns);
    last_ns = now_ns;
  }
}

TEST_CASE("a step of a clock is counted and not smeared", "[timeline][unit]") {
  ClockMap map;
  map.add({1'000'000'000, 0});
  map.add({2'000'000'000, 1'000'000'000});
  map.add({8'000'000'000, 2'000'000'000});  // the device's clock was set 5 s ahead
  CHECK(map.step_count() == 1);
  CHECK(map.to_host(2'400'000'000) == 1'400'000'000);
  CHECK(map.to_host(7'900'000'000) == 1'900'000'000);
}

TEST_CASE("old pairs go, the newest stay", "[timeline][unit]") {
  ClockMap map;
  for (int i = 0; i < 3'000; ++i) map.add({i * 1'000'000'000LL + 7, i * 1'000'000'000LL});
  CHECK(map.to_host(2'999'500'000'007) == 2'999'500'000'000);
}

TEST_CASE("ticks become ns by the line between the pairs around them", "[timeline][unit]") {
  TickMap map;
  map.add({1'000, 500});
  map.add({3'000, 1'500});  // 2 ticks per ns
  map.add({7'000, 5'500});  // 1 tick per ns
  CHECK(map.to_host(1'000) == 500);
  CHECK(map.to_host(2'000) == 1'000);
  CHECK(map.to_host(5'000) == 3'500);
  CHECK(map.to_host(0) == 0);          // before the first pair: its line
  CHECK(map.to_host(9'000) == 7'500);  // after the last: its line
  map.add({7'000, 9'999});             // a pair that does not move on is no pair
  CHECK(map.pair_count() == 3);
}

TEST_CASE("ticks stay exact near the end and ordered everywhere while pairs are thinned out",
          "[timeline][unit]") {
  TickMap map;
  constexpr std::int64_t kPairs = 100'000;
  for (std::int64_t i = 0; i < kPairs; ++i) map.add({i * 40'000'000, i * 20'000'000});
  CHECK(map.pair_count() <= TickMap::kMaxPairs);
  CHECK(map.to_host((kPairs - 2) * 40'000'000 + 20) == (kPairs - 2) * 20'000'000 + 10);
  std::int64_t last_ns = -1;
  for (std::int64_t i = 0; i < kPairs; i += 997) {
    const std::int64_t now_ns = map.to_host(i * 40'000'000);
    REQUIRE(now_ns > last_ns);
    last_ns = now_ns;
  }
}

}  // namespace gpuidle::timeline
