// SPDX-License-Identifier: Apache-2.0
//
// The ring between a host thread and the drain thread; ThreadSanitizer repeats these.
#include "libgpuidle/record/thread_ring.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace gpuidle::record {
namespace {

CallRecord call(std::uint32_t correlation) {
  CallRecord record;
  record.head.kind = RecordKind::call;
  record.correlation = correlation;
  return record;
}

CallRecord as_call(const Slot& slot) {
  CallRecord record;
  std::memcpy(static_cast<void*>(&record), &slot, sizeof(record));
  return record;
}

struct Ring {
  explicit Ring(std::size_t capacity) : slots(capacity) { ring.init(slots.data(), capacity); }
  std::vector<Slot> slots;
  ThreadRing ring;
};

}  // namespace

TEST_CASE("a ring gives records back in the order they were pushed", "[record][unit]") {
  Ring r(8);
  for (std::uint32_t i = 0; i < 5; ++i) REQUIRE(r.ring.push(call(i)));
  REQUIRE(r.ring.readable() == 5);
  Slot slots[5];
  r.ring.peek(0, 5, slots);
  for (std::uint32_t i = 0; i < 5; ++i) CHECK(as_call(slots[i]).correlation == i);
}

TEST_CASE("a full ring drops the record and counts it", "[record][unit]") {
  Ring r(4);
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(r.ring.push(call(i)));
  CHECK_FALSE(r.ring.push(call(99)));
  CHECK(r.ring.dropped() == 1);
  CHECK(r.ring.readable() == 4);
  r.ring.release(1);
  CHECK(r.ring.push(call(4)));
  Slot slot;
  r.ring.peek(3, 1, &slot);
  CHECK(as_call(slot).correlation == 4);
}

TEST_CASE("a payload follows its record, across the ring's end too", "[record][unit]") {
  Ring r(8);
  for (std::uint32_t i = 0; i < 6; ++i) REQUIRE(r.ring.push(call(i)));
  r.ring.release(6);
  std::uint64_t frames[9];
  for (std::uint64_t i = 0; i < 9; ++i) frames[i] = 0x1000 + i;
  REQUIRE(r.ring.push(call(7), frames, sizeof(frames)));  // 72 bytes: three slots more
  REQUIRE(r.ring.readable() == 4);
  Slot slots[4];
  r.ring.peek(0, 4, slots);
  CHECK(as_call(slots[0]).head.slots == 4);
  std::uint64_t back[12];
  std::memcpy(back, &slots[1], sizeof(back));
  for (std::size_t i = 0; i < 9; ++i) CHECK(back[i] == frames[i]);
  for (std::size_t i = 9; i < 12; ++i) CHECK(back[i] == 0);
}

TEST_CASE("a record that does not fit whole is not written in part", "[record][unit]") {
  Ring r(4);
  REQUIRE(r.ring.push(call(1)));
  REQUIRE(r.ring.push(call(2)));
  const std::uint64_t frames[12] = {};
  CHECK_FALSE(r.ring.push(call(3), frames, sizeof(frames)));
  CHECK(r.ring.readable() == 2);
}

TEST_CASE("nothing is lost or torn between a writing and a reading thread", "[record][unit]") {
  Ring r(64);
  constexpr std::uint32_t kCount = 200'000;
  std::thread writer([&] {
    for (std::uint32_t i = 0; i < kCount;) {
      CallRecord record = call(i);
      record.enter_ticks = i;
      record.exit_ticks = ~std::int64_t{i};
      if (r.ring.push(record)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  std::uint32_t expected = 0;
  bool all_match = true;
  while (expected < kCount) {
    const std::size_t count = r.ring.readable();
    if (count == 0) std::this_thread::yield();
    for (std::size_t i = 0; i < count; ++i) {
      Slot slot;
      r.ring.peek(i, 1, &slot);
      const CallRecord record = as_call(slot);
      all_match &= record.correlation == expected && record.enter_ticks == expected &&
                   record.exit_ticks == ~std::int64_t{expected};
      ++expected;
    }
    r.ring.release(count);
  }
  writer.join();
  CHECK(all_match);
}

}  // namespace gpuidle::record
