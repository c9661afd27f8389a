// SPDX-License-Identifier: Apache-2.0
//
// The three kinds of line tables on bytes written by hand; python_frames_test compares them with
// real interpreters.
#include "libgpuidle/stacks/python_lines.h"

#include <catch2/catch.hpp>
#include <vector>

namespace gpuidle::stacks {
namespace {

using Bytes = std::vector<unsigned char>;

std::uint32_t line(LineTable format, const Bytes& table, std::int32_t position) {
  return python_line(format, table.data(), table.size(), 100, position);
}

}  // namespace

TEST_CASE("increments say at which byte the next line begins", "[stacks][unit]") {
  const Bytes table = {4, 1, 6, 254, 0, 5};  // +1 at 4, -2 and +5 at 10
  CHECK(line(LineTable::increments, table, 0) == 100);
  CHECK(line(LineTable::increments, table, 3) == 100);
  CHECK(line(LineTable::increments, table, 4) == 101);
  CHECK(line(LineTable::increments, table, 9) == 101);
  CHECK(line(LineTable::increments, table, 10) == 104);
  CHECK(line(LineTable::increments, table, 5000) == 104);
}

TEST_CASE("ranges cover bytes, some of them without a line", "[stacks][unit]") {
  const Bytes table = {4, 1, 6, 128, 2, 255};  // [0,4) 101, [4,10) none, [10,12) 100
  CHECK(line(LineTable::ranges, table, 0) == 101);
  CHECK(line(LineTable::ranges, table, 3) == 101);
  CHECK(line(LineTable::ranges, table, 4) == 0);
  CHECK(line(LineTable::ranges, table, 9) == 0);
  CHECK(line(LineTable::ranges, table, 10) == 100);
  CHECK(line(LineTable::ranges, table, 12) == 0);
}

TEST_CASE("locations have short, one-line, columnless, long and empty forms", "[stacks][unit]") {
  const auto head = [](unsigned form, unsigned units) {
    return static_cast<unsigned char>(0x80u | form << 3 | (units - 1));
  };
  const Bytes table = {
      head(3, 2),  0x12,              // [0,4): same line
      head(11, 1), 1,    9,           // [4,6): one further
      head(13, 1), 0x0a,              // [6,8): +5, no columns
      head(14, 1), 0x41, 2, 0, 1, 1,  // [8,10): -(64 >> 1)-..., the number has two groups
      head(15, 3),                    // [10,16): none
      head(10, 8), 1,    2,           // [16,32): same line
  };
  CHECK(line(LineTable::locations, table, 0) == 100);
  CHECK(line(LineTable::locations, table, 3) == 100);
  CHECK(line(LineTable::locations, table, 4) == 101);
  CHECK(line(LineTable::locations, table, 6) == 106);
  CHECK(line(LineTable::locations, table, 8) == 106 - 64);
  CHECK(line(LineTable::locations, table, 10) == 0);
  CHECK(line(LineTable::locations, table, 15) == 0);
  CHECK(line(LineTable::locations, table, 31) == 106 - 64);
  CHECK(line(LineTable::locations, table, 32) == 0);
}

TEST_CASE("a frame that has not begun is at the first line", "[stacks][unit]") {
  for (const auto format : {LineTable::increments, LineTable::ranges, LineTable::locations}) {
    CHECK(line(format, {}, -1) == 100);
    CHECK(line(format, {2, 5, 2, 5}, -2) == 100);
  }
}

TEST_CASE("tables that were cut or are no tables end without reading beyond them",
          "[stacks][unit]") {
  // Exact allocations, so that AddressSanitizer sees one byte too far.
  for (unsigned first = 0; first < 256; ++first) {
    for (std::size_t length = 0; length <= 4; ++length) {
      const Bytes table(length, static_cast<unsigned char>(first));
      for (const auto format : {LineTable::increments, LineTable::ranges, LineTable::locations}) {
        CHECK(line(format, table, 1'000'000) <= 100 + 4 * 255);
      }
    }
  }
}

}  // namespace gpuidle::stacks
