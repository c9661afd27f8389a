// SPDX-License-Identifier: Apache-2.0
//
// The buffers lent to CUPTI; ThreadSanitizer repeats these.
#include "libgpuidle/cupti/activity_buffers.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace gpuidle::cupti {
namespace {

std::uint64_t one_per_eight_bytes(std::uint8_t*, std::size_t valid_bytes) {
  return valid_bytes / 8;
}

std::unique_ptr<ActivityBuffers> make() {
  auto buffers = std::make_unique<ActivityBuffers>();
  REQUIRE(buffers->prepare(&one_per_eight_bytes));
  return buffers;
}

}  // namespace

TEST_CASE("filled buffers are read in the order in which they were completed", "[cupti][unit]") {
  const auto buffers = make();
  std::uint8_t* first = buffers->request();
  std::uint8_t* second = buffers->request();
  REQUIRE(first != nullptr);
  REQUIRE(reinterpret_cast<std::uintptr_t>(first) % 8 == 0);
  buffers->complete(second, 16);
  buffers->complete(first, 8);
  const auto a = buffers->take();
  const auto b = buffers->take();
  CHECK(a.data == second);
  CHECK(a.valid_bytes == 16);
  CHECK(b.data == first);
  CHECK(buffers->take().data == nullptr);
}

TEST_CASE("an empty buffer is free again at once", "[cupti][unit]") {
  const auto buffers = make();
  buffers->complete(buffers->request(), 0);
  CHECK(buffers->take().data == nullptr);
}

TEST_CASE("when nothing is read, the oldest filled buffer is reused and its records counted",
          "[cupti][unit]") {
  const auto buffers = make();
  std::uint8_t* oldest = nullptr;
  for (int i = 0; i < ActivityBuffers::kBufferCount; ++i) {
    std::uint8_t* buffer = buffers->request();
    if (i == 0) oldest = buffer;
    buffers->complete(buffer, 80);
  }
  CHECK(buffers->lost_records() == 0);
  CHECK(buffers->request() == oldest);
  CHECK(buffers->lost_records() == 10);
}

TEST_CASE("a buffer that CUPTI holds is never given out twice", "[cupti][unit]") {
  const auto buffers = make();
  std::set<std::uint8_t*> held;
  for (int i = 0; i < ActivityBuffers::kBufferCount + 8; ++i) {
    std::uint8_t* buffer = buffers->request();
    REQUIRE(buffer != nullptr);
    CHECK(held.insert(buffer).second);
    std::memset(buffer, 0x5a, ActivityBuffers::kBufferBytes);
  }
  for (std::uint8_t* buffer : held) buffers->complete(buffer, 8);
  // The eight beyond the bound were unmapped, what they held is counted.
  CHECK(buffers->lost_records() == 8);
}

TEST_CASE("threads that fill and one that reads never meet in a buffer", "[cupti][unit]") {
  const auto buffers = make();
  constexpr int kThreads = 4;
  constexpr int kRounds = 2'000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        std::uint8_t* buffer = buffers->request();
        std::memset(buffer, t + 1, 64);
        buffers->complete(buffer, 64);
      }
      --running;
    });
  }
  std::uint64_t read = 0;
  bool is_whole = true;
  const auto read_all = [&] {
    for (auto filled = buffers->take(); filled.data != nullptr; filled = buffers->take()) {
      for (int i = 1; i < 64; ++i) is_whole &= filled.data[i] == filled.data[0];
      ++read;
      buffers->release(filled);
    }
  };
  while (running.load() != 0) read_all();
  for (std::thread& thread : threads) thread.join();
  read_all();
  CHECK(is_whole);
  CHECK(read + buffers->lost_records() / 8 == std::uint64_t{kThreads} * kRounds);
}

}  // namespace gpuidle::cupti
