// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "libgpuidle/import/decimal_time.h"

namespace gpuidle::import {
namespace {

TEST_CASE("decimal microseconds become nanoseconds without a rounding through double", "[import]") {
  CHECK(nanoseconds_of_microseconds("1712195495406752.800") == 1712195495406752800);
  CHECK(nanoseconds_of_microseconds("1712195495406752.001") == 1712195495406752001);
  CHECK(nanoseconds_of_microseconds("2915995397141.75") == 2915995397141750);
  CHECK(nanoseconds_of_microseconds("8.5") == 8500);
  CHECK(nanoseconds_of_microseconds("1623142623460072") == 1623142623460072000);
  CHECK(nanoseconds_of_microseconds("0") == 0);
  CHECK(nanoseconds_of_microseconds("000.001") == 1);
  CHECK(nanoseconds_of_microseconds("-3.25") == -3250);
}

TEST_CASE("digits below a nanosecond are rounded half away from zero", "[import]") {
  CHECK(nanoseconds_of_microseconds("1.2344999") == 1234);
  CHECK(nanoseconds_of_microseconds("1.2345") == 1235);
  CHECK(nanoseconds_of_microseconds("-1.2345") == -1235);
  CHECK(nanoseconds_of_microseconds("0.9995") == 1000);
  CHECK(nanoseconds_of_microseconds("0.000499999999") == 0);
  CHECK(nanoseconds_of_microseconds("12.123456789") == 12123);
}

TEST_CASE("exponents move the decimal point", "[import]") {
  CHECK(nanoseconds_of_microseconds("1.5e3") == 1500000);
  CHECK(nanoseconds_of_microseconds("1.623142623460072E15") == 1623142623460072000);
  CHECK(nanoseconds_of_microseconds("2500e-3") == 2500);
  CHECK(nanoseconds_of_microseconds("5e-4") == 1);
  CHECK(nanoseconds_of_microseconds("4e-4") == 0);
  CHECK(nanoseconds_of_microseconds("1e-999999999999999999999") == 0);
  CHECK(nanoseconds_of_microseconds("0e999999999999999999999") == 0);
}

TEST_CASE("what is no number or fits no clock is refused", "[import]") {
  for (const char* text : {"", "-", ".", "NaN", "Infinity", "-inf", "null", "1.2.3", "12a", "e5",
                           "1e", "1e+", "0x10", " 1"}) {
    INFO(text);
    CHECK_FALSE(nanoseconds_of_microseconds(text).has_value());
  }
  CHECK(nanoseconds_of_microseconds("9223372036854775.807") == INT64_MAX);
  CHECK_FALSE(nanoseconds_of_microseconds("9223372036854775.808").has_value());
  CHECK_FALSE(nanoseconds_of_microseconds("9223372036854775.8075").has_value());
  CHECK_FALSE(nanoseconds_of_microseconds("1e300").has_value());
  CHECK_FALSE(nanoseconds_of_microseconds(std::string(5000, '9')).has_value());
}

}  // namespace
}  // namespace gpuidle::import
