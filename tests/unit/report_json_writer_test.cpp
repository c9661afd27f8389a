// SPDX-License-Identifier: Apache-2.0
//
// Documents of the JSON writer, read back by an independent parser.
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <stdexcept>

#include "libgpuidle/report/json_writer.h"

using gpuidle::report::JsonWriter;

TEST_CASE("a document reads back with its values", "[report][unit]") {
  JsonWriter json;
  json.begin_object();
  json.field("text", "a\"b\\c\n\x01");
  json.field("least", std::numeric_limits<std::int64_t>::min());
  json.field("most", std::numeric_limits<std::uint64_t>::max());
  json.field("ratio", 0.1);
  json.field("no_number", std::numeric_limits<double>::quiet_NaN());
  json.field("unknown", std::optional<std::int64_t>());
  json.key("rows").begin_array().value(true).begin_object().end_object().value(3U).end_array();
  json.end_object();
  simdjson::dom::parser parser;
  const auto document = parser.parse(json.take());
  CHECK(std::string_view(document["text"]) == "a\"b\\c\n\x01");
  CHECK(std::int64_t(document["least"]) == std::numeric_limits<std::int64_t>::min());
  CHECK(std::uint64_t(document["most"]) == std::numeric_limits<std::uint64_t>::max());
  CHECK(double(document["ratio"]) == 0.1);
  CHECK(document["no_number"].is_null());
  CHECK(document["unknown"].is_null());
  CHECK(bool(document["rows"].at(0)));
  CHECK(std::uint64_t(document["rows"].at(2)) == 3);
}

TEST_CASE("names made of any bytes give a document that parses", "[report][unit]") {
  std::mt19937 random(5);
  simdjson::dom::parser parser;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int n = static_cast<int>(random() % 12); n > 0; --n) {
      bytes += static_cast<char>(random() % 3 == 0 ? random() % 128 : 128 + random() % 128);
    }
    JsonWriter json;
    json.begin_array().value(bytes).end_array();
    const std::string text = json.take();
    INFO(text);
    REQUIRE(parser.parse(text).error() == simdjson::SUCCESS);
  }
}

TEST_CASE("well-formed text passes unchanged and ill-formed bytes are replaced", "[report][unit]") {
  const auto written = [](std::string_view text) {
    JsonWriter json;
    json.value(text);
    return json.take();
  };
  CHECK(written("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80") ==
        "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80\"\n");
  CHECK(written("a\xC0\xAF") == "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"\n");
  CHECK(written("\xED\xA0\x80").size() == 2 + 9 + 1);
}

TEST_CASE("a document with a missing key or end is refused", "[report][unit]") {
  JsonWriter json;
  json.begin_object();
  CHECK_THROWS_AS(json.value(1), std::logic_error);
  CHECK_THROWS_AS(json.take(), std::logic_error);
  CHECK_THROWS_AS(json.end_array(), std::logic_error);
}
