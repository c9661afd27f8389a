// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/duration_option.h"

#include <catch2/catch.hpp>
#include <string>

using gpuidle::cli::parse_duration;

TEST_CASE("times with a unit become nanoseconds", "[tools][unit]") {
  CHECK(parse_duration("500ms").value() == 500'000'000);
  CHECK(parse_duration("30s").value() == 30'000'000'000);
  CHECK(parse_duration("1.5m").value() == 90'000'000'000);
  CHECK(parse_duration("2h").value() == 7'200'000'000'000);
}

TEST_CASE("what is no time with a unit is refused", "[tools][unit]") {
  for (const char* text : {"", "30", "s", "-1s", "1.2.3s", "0s", "1d", "1 s", "999999h", "nans",
                           "1e3s", "0.0000000001s"}) {
    CAPTURE(text);
    REQUIRE_FALSE(parse_duration(text).ok());
    CHECK(parse_duration(text).status().message().find("such as 500ms") != std::string::npos);
  }
}
