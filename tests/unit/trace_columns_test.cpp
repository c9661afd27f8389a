// SPDX-License-Identifier: Apache-2.0
//
// Columns and checksums: every run of numbers comes back, the cheap cases are cheap, and no bytes
// make the decoder read or write where it must not.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "libgpuidle/trace/columns.h"
#include "libgpuidle/trace/crc32c.h"

using namespace gpuidle::trace;
using Expansion = ColumnEncoder::Expansion;
using Shape = ColumnEncoder::Shape;
using Values = std::vector<std::uint64_t>;

namespace {

struct Encoded {
  ColumnView view;
  std::vector<std::uint8_t> bytes;
};

Encoded encode(const Values& values, Shape shape = Shape::any,
               Expansion expansion = Expansion::free, ColumnKeys keys = {}) {
  ColumnEncoder encoder;
  Encoded encoded;
  encoded.view = encoder.encode(values.data(), values.size(), shape, expansion, keys);
  encoded.bytes.assign(encoded.view.bytes, encoded.view.bytes + encoded.view.size_bytes);
  encoded.view.bytes = encoded.bytes.data();
  return encoded;
}

Values decode(const Encoded& encoded, std::size_t count, ColumnKeys keys = {}) {
  Values values(count, 0xdead);
  ColumnDecoder decoder;
  const char* problem = decoder.decode(encoded.view, count, keys, values.data());
  REQUIRE((problem == nullptr ? std::string() : std::string(problem)).empty());
  return values;
}

// Numbers as they occur: of some magnitude, with runs, steps and outliers.
Values random_values(std::mt19937_64& random, std::size_t count) {
  Values values(count);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const unsigned bits = 1 + static_cast<unsigned>(below(64));
  const std::uint64_t mode = below(5);
  std::uint64_t value = random();
  for (std::uint64_t& v : values) {
    const std::uint64_t noise = random() >> (64 - bits);
    if (mode == 0) value = noise;
    if (mode == 1) value += noise;
    if (mode == 2 && below(20) == 0) value = noise;
    if (mode == 3) value = 1000 + (below(50) == 0 ? random() : below(100));
    if (mode == 4) value += 3;
    v = value;
  }
  return values;
}

}  // namespace

TEST_CASE("any run of numbers comes back from its column", "[trace]") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t count = 1 + random() % 300;
    Values values = random_values(random, count);
    std::vector<std::uint32_t> keys(count);
    const std::size_t key_count = 1 + random() % 9;
    for (auto& key : keys) key = static_cast<std::uint32_t>(random() % key_count);
    const ColumnKeys by_key = random() % 2 == 0 ? ColumnKeys{keys.data(), key_count} : ColumnKeys{};
    const Expansion expansion = random() % 2 == 0 ? Expansion::free : Expansion::byte_per_value;
    Shape shape = Shape::any;
    if (random() % 3 == 0) {
      shape = Shape::ascending;
      std::sort(values.begin(), values.end());
    }
    CAPTURE(round, count);
    const Encoded encoded = encode(values, shape, expansion, by_key);
    REQUIRE(decode(encoded, count, by_key) == values);
    if (expansion == Expansion::byte_per_value) {
      REQUIRE(encoded.view.size_bytes >= count);
    }
  }
}

TEST_CASE("what repeats costs next to nothing", "[trace]") {
  SECTION("one value is no bytes at all") {
    CHECK(encode(Values(10'000, 77)).view.packing == Packing::constant);
    CHECK(encode(Values(10'000, 77)).view.size_bytes == 0);
  }
  SECTION("equal steps are one run") {
    Values values;
    for (std::uint64_t i = 0; i < 10'000; ++i) values.push_back(5 + 3 * i);
    CHECK(encode(values).view.size_bytes < 10);
  }
  SECTION("one outlier costs itself, not a byte per value") {
    Values values(10'000, 0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 7 * i % 200;
    values[5000] = UINT64_MAX / 3;
    CHECK(encode(values).view.size_bytes < 10'000 + 20);
  }
  SECTION("values that resemble those of the same key are told by their small differences") {
    Values values;
    std::vector<std::uint32_t> keys;
    for (std::uint32_t i = 0; i < 9'000; ++i) {
      keys.push_back(i * i % 3);
      values.push_back(keys.back() * 1'000'000 + i % 50);
    }
    const ColumnKeys by_key{keys.data(), 3};
    CHECK(encode(values, Shape::any, Expansion::free, by_key).view.size_bytes < 9'100);
    CHECK(encode(values).view.size_bytes > 2 * 9'000);
  }
}

TEST_CASE("a rare slow value does not spoil the expectation of its kernel", "[trace]") {
  RunningMean mean(0);
  for (int i = 0; i < 20; ++i) mean.add(1600);
  mean.add(1'000'000);
  CHECK(mean.expected() == 1600 + 1600 / 16 + 1);
  for (int i = 0; i < 100; ++i) mean.add(800);
  CHECK(mean.expected() < 810);
}

TEST_CASE("columns that contradict themselves are refused with their reason", "[trace]") {
  Values out(4);
  const auto refuse = [&](ColumnView view, std::vector<std::uint8_t> bytes, std::size_t count = 4) {
    view.bytes = bytes.data();
    view.size_bytes = bytes.size();
    ColumnDecoder decoder;
    const char* problem = decoder.decode(view, count, {}, out.data());
    return std::string(problem == nullptr ? "accepted" : problem);
  };
  ColumnView planes, runs, constant, unknown;
  planes.packing = Packing::planes;
  runs.packing = Packing::run_length;
  unknown.packing = static_cast<Packing>(9);
  CHECK(refuse(constant, {1}) == "has bytes left over");
  CHECK(refuse(unknown, {}) == "has an unknown packing");
  planes.width = 9;
  CHECK(refuse(planes, {1}) == "has an impossible width");
  planes.width = 2;
  CHECK(refuse(planes, {1, 2, 3, 4, 5, 6, 7}) == "is too short");
  planes.width = 1;
  CHECK(refuse(planes, {1, 2, 3, 4, 1}) == "is cut off");
  CHECK(refuse(planes, {1, 2, 3, 4, 4, 1}) == "has an exception beyond its end");
  CHECK(refuse(planes, {1, 2, 3, 4, 3, 1, 0, 1}) == "has an exception beyond its end");
  CHECK(refuse(planes, {1, 2, 3, 4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 1}) ==
        "is cut off");
  CHECK(refuse(runs, {3, 7}) == "is too short");
  CHECK(refuse(runs, {5, 7}) == "has runs that do not fit");
  CHECK(refuse(runs, {0, 7}) == "has runs that do not fit");
  CHECK(refuse(runs, {4, 0x80}) == "is cut off");
  constant.transform = Transform::keyed_delta;
  CHECK(refuse(constant, {}) == "is keyed, and has no keys");
  constant.transform = static_cast<Transform>(77);
  CHECK(refuse(constant, {}) == "has an unknown transform");
  constant.transform = Transform::none;
  CHECK(refuse(constant, {}) == "accepted");
}

TEST_CASE("random bytes never take the decoder out of bounds", "[trace]") {
  std::mt19937_64 random(2);
  std::size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint8_t> bytes(random() % 40);
    for (auto& byte : bytes)
      byte = static_cast<std::uint8_t>(random() % (1u << (1 + random() % 8)));
    const std::size_t count = random() % 20;
    Values out(count);
    const std::vector<std::uint32_t> keys(count, 0);
    ColumnView view;
    view.packing = static_cast<Packing>(random() % 4);
    view.transform = static_cast<Transform>(random() % 6);
    view.width = static_cast<std::uint8_t>(random() % 10);
    view.base = random();
    view.bytes = bytes.data();
    view.size_bytes = bytes.size();
    ColumnDecoder decoder;
    if (decoder.decode(view, count, {keys.data(), 1}, out.data()) == nullptr) ++accepted;
  }
  CHECK(accepted > 0);  // the loop reached the inside of the decoder
}

TEST_CASE("the checksum is CRC-32C, with and without the processor's instruction", "[trace]") {
  const std::string check = "123456789";
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(check.data());
  CHECK(crc32c(bytes, check.size()) == 0xe3069283);
  CHECK(crc32c_portable(bytes, check.size()) == 0xe3069283);
  std::mt19937_64 random(3);
  std::vector<std::uint8_t> block(1000);
  for (auto& byte : block) byte = static_cast<std::uint8_t>(random());
  for (std::size_t from = 0; from < 9; ++from) {
    for (std::size_t count = 0; count < 40; ++count) {
      REQUIRE(crc32c(block.data() + from, count) == crc32c_portable(block.data() + from, count));
    }
  }
}
