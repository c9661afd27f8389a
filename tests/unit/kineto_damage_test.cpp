// SPDX-License-Identifier: Apache-2.0
//
// Damaged traces: cut off at every byte, bytes flipped at random places, bytes that are no text.
// Whatever can be read is read, with a warning; nothing that was not in the file appears.
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <tuple>

#include "libgpuidle/import/gzip.h"
#include "libgpuidle/import/json_repair.h"
#include "tests/unit/kineto_reading.h"

namespace gpuidle {
namespace {

using base::StatusCode;
using test::Everything;

constexpr const char* kFiles[] = {"kineto2021_cats_rank1_tiny.json.gz",
                                  "a100_event_sync_tiny.json.gz"};

std::string text_of(const std::string& name) {
  const std::string path = std::string(GPUIDLE_GOLDEN) + "/" + name;
  const auto file = import::read_file(path);
  REQUIRE(file.ok());
  const auto text = import::gunzip(file.value().view(), path);
  REQUIRE(text.ok());
  return std::string(text.value().view());
}

using Interval = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;

std::set<Interval> intervals_of(const model::Recording& recording) {
  std::set<Interval> intervals;
  for (const auto& a : Everything(recording).activities) {
    intervals.emplace(a.start_ns, a.end_ns, a.correlation);
  }
  return intervals;
}

TEST_CASE("a trace that is cut off anywhere gives the rows before the cut", "[kineto]") {
  for (const char* name : kFiles) {
    const std::string whole = text_of(name);
    const std::set<Interval> all = intervals_of(*test::recording_of(whole));
    REQUIRE(all.size() >= 4);
    std::size_t most = 0, opened = 0;
    for (std::size_t length = 0; length + 3 < whole.size(); ++length) {
      const auto result = test::read(std::string_view(whole).substr(0, length));
      if (!result.ok()) {
        const StatusCode code = result.status().code();
        REQUIRE((code == StatusCode::truncated || code == StatusCode::corrupt));
        REQUIRE(opened == 0);  // once there are rows, more text never makes it worse
        continue;
      }
      ++opened;
      const std::set<Interval> some = intervals_of(*result.value());
      REQUIRE(std::includes(all.begin(), all.end(), some.begin(), some.end()));
      REQUIRE(some.size() >= most);
      REQUIRE_FALSE(result.value()->info().warnings.empty());
      most = some.size();
    }
    CHECK(most == all.size());
    CHECK(opened > whole.size() / 2);
  }
}

TEST_CASE("flipped bytes never crash the reader", "[kineto]") {
  std::mt19937 random(20240601);
  std::size_t opened = 0;
  for (const char* name : kFiles) {
    const std::string whole = text_of(name);
    for (int round = 0; round < 1500; ++round) {
      std::string text = whole;
      for (int flips = 1 + round % 4; flips > 0; --flips) {
        text[random() % text.size()] = static_cast<char>(random() % 256);
      }
      const auto result = test::read(text);
      if (!result.ok()) {
        CHECK_FALSE(result.status().message().empty());
        continue;
      }
      ++opened;
      CHECK(result.value()->tables().is_consistent());
      for (const auto& a : Everything(*result.value()).activities) REQUIRE(a.end_ns >= a.start_ns);
    }
  }
  CHECK(opened > 1500);
}

TEST_CASE("bytes that are no text are replaced and told", "[kineto]") {
  const auto recording = test::recording_of_rows(
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\xff\xc3(b\x01\",\"pid\":0,\"tid\":7,\"ts\":1,"
      "\"dur\":2}");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 1);
  const auto& kernel = recording->tables().kernels()[all.activities[0].kernel];
  CHECK(recording->tables().string(kernel.name) == "a\?\?(b?");
  REQUIRE(recording->info().warnings.size() == 1);
  CHECK(recording->info().warnings[0].find("3 bytes") != std::string::npos);
}

TEST_CASE("damage in the middle keeps the rows before it and says where it is", "[kineto]") {
  const std::string good =
      R"json({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2})json";
  const std::string json = "[" + good + ",\n" +
                           R"json({"ph":"X" "cat":"kernel","ts":5,"dur":1},)json" + "\n" + good +
                           "]";
  const auto recording = test::recording_of(json);
  CHECK(Everything(*recording).activities.size() == 1);
  REQUIRE(recording->info().warnings.size() == 1);
  CHECK(recording->info().warnings[0].find("at byte " + std::to_string(good.size() + 3) + " of " +
                                           std::to_string(json.size())) != std::string::npos);
}

TEST_CASE("repair leaves a text alone that is in order", "[kineto]") {
  const std::string json = "{\"a\": [\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 \\\" ] }\", {}]}";
  import::PaddedText text = import::PaddedText::copy_of(json);
  const import::JsonRepair repair = import::repair_json(text);
  CHECK(repair.bad_bytes == 0);
  CHECK_FALSE(repair.is_cut_off);
  CHECK(text.view() == json);
}

TEST_CASE("repair closes a cut text behind its last whole row", "[kineto]") {
  const struct {
    const char *cut, *closed;
  } kCases[] = {
      {R"json({"traceEvents": [{"a": [1]}, {"b": {"c": 1}, "d)json",
       R"json({"traceEvents": [{"a": [1]}]})json"},
      {R"json([{"a": 1}, {"b")json", R"json([{"a": 1}])json"},
      {R"json({"x": [{"a": 1}], "y": {"b": 2}, "z": [[1], )json",
       R"json({"x": [{"a": 1}], "y": {"b": 2}, "z": [[1]]})json"},
      {R"json({"traceEvents": [{"a": 1}], "n": "te)json", R"json({"traceEvents": [{"a": 1}]})json"},
      {R"json({"traceEvents": [{"a")json", ""},
  };
  for (const auto& one : kCases) {
    import::PaddedText text = import::PaddedText::copy_of(one.cut);
    CHECK(import::repair_json(text).is_cut_off);
    CHECK(text.view() == one.closed);
  }
}

}  // namespace
}  // namespace gpuidle
