// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/base/config.h"

#include <fnmatch.h>

#include <catch2/catch.hpp>

namespace gpuidle::base {
namespace {

using Warnings = std::vector<std::string>;

Config config_of(std::vector<const char*> environment, Warnings* warnings) {
  environment.push_back(nullptr);
  return Config::from(environment.data(), warnings);
}

bool matches_any(const std::vector<std::string>& globs, const std::string& path) {
  for (const std::string& glob : globs) {
    if (fnmatch(glob.c_str(), path.c_str(), FNM_PATHNAME) == 0) return true;
  }
  return false;
}

TEST_CASE("every default of the table is a value that the table accepts", "[config][unit]") {
  for (const SettingRow& row : setting_rows()) {
    if (row.default_value[0] == '\0') continue;
    CHECK(check_setting(row, row.default_value).message().empty());
  }
}

TEST_CASE("an empty environment gives the defaults and no warning", "[config][unit]") {
  Warnings warnings;
  const Config config = config_of({"HOME=/root", "GPUIDLE=1"}, &warnings);
  CHECK(warnings.empty());
  CHECK(config.output == "gpuidle-%e-%p.gpuidle");
  CHECK(config.start == StartMode::automatic);
  CHECK(config.source == SourceLimit::automatic);
  CHECK(config.stacks);
  CHECK(config.stack_depth == 64);
  CHECK(config.gap_threshold_us == 20);
  CHECK(config.log == LogLevel::warning);
  CHECK(config.log_file.empty());
}

TEST_CASE("the environment overrides defaults", "[config][unit]") {
  Warnings warnings;
  const Config config =
      config_of({"GPUIDLE_SOURCE=interposition", "GPUIDLE_STACKS=0", "GPUIDLE_RING_KIB=64",
                 "GPUIDLE_LOG=debug", "GPUIDLE_LOG_FILE=/tmp/a=b", "GPUIDLE_START=manual"},
                &warnings);
  CHECK(warnings.empty());
  CHECK(config.source == SourceLimit::interposition);
  CHECK_FALSE(config.stacks);
  CHECK(config.ring_kib == 64);
  CHECK(config.log == LogLevel::debug);
  CHECK(config.log_file == "/tmp/a=b");
  CHECK(config.start == StartMode::manual);
}

TEST_CASE("a bad value is told in one line and the default stays", "[config][unit]") {
  const char* entry = GENERATE("GPUIDLE_FLUSH_INTERVAL_MS=49", "GPUIDLE_FLUSH_INTERVAL_MS=1001",
                               "GPUIDLE_FLUSH_INTERVAL_MS=-1", "GPUIDLE_FLUSH_INTERVAL_MS=5e2",
                               "GPUIDLE_FLUSH_INTERVAL_MS=18446744073709551716");
  Warnings warnings;
  const Config config = config_of({entry}, &warnings);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("a whole number of ms from 50 to 1000") != std::string::npos);
  CHECK(warnings[0].find("using the default '500'") != std::string::npos);
  CHECK(config.flush_interval_ms == 500);
}

TEST_CASE("a choice must be one of those listed, in full", "[config][unit]") {
  const char* entry = GENERATE("GPUIDLE_SOURCE=cup", "GPUIDLE_SOURCE=cupti|off", "GPUIDLE_SOURCE=|",
                               "GPUIDLE_SOURCE=AUTO");
  Warnings warnings;
  const Config config = config_of({entry}, &warnings);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("one of auto|cupti|interposition|off") != std::string::npos);
  CHECK(config.source == SourceLimit::automatic);
}

TEST_CASE("an unknown name is told with the nearest known one", "[config][unit]") {
  Warnings warnings;
  config_of({"GPUIDLE_RING_KB=64", "GPUIDLE_ENTIRELY_DIFFERENT=1"}, &warnings);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] ==
        "unknown variable GPUIDLE_RING_KB is ignored; did you mean GPUIDLE_RING_KIB?");
  CHECK(warnings[1].find("did you mean") == std::string::npos);
  CHECK(warnings[1].find("gpuidle run --help") != std::string::npos);
}

TEST_CASE("an empty value counts as not set", "[config][unit]") {
  Warnings warnings;
  const Config config = config_of({"GPUIDLE_RING_KIB=", "GPUIDLE_OUTPUT="}, &warnings);
  CHECK(warnings.empty());
  CHECK(config.ring_kib == 512);
}

TEST_CASE("the effective settings give back the same settings", "[config][unit]") {
  Warnings warnings;
  const Config config = config_of({"GPUIDLE_SOURCE=cupti", "GPUIDLE_STACK_DEPTH=7"}, &warnings);
  const std::vector<std::string> lines = config.effective();
  CHECK(lines.size() == setting_rows().size());
  std::vector<const char*> environment;
  for (const std::string& line : lines) environment.push_back(line.c_str());
  const Config again = config_of(environment, &warnings);
  CHECK(again.effective() == lines);
  CHECK(again.source == SourceLimit::cupti);
  CHECK(again.stack_depth == 7);
  CHECK(warnings.empty());
}

TEST_CASE("an output pattern with an unknown field or without a file name is refused",
          "[config][unit]") {
  const SettingRow& output = setting_rows().front();
  REQUIRE(std::string(output.variable) == "GPUIDLE_OUTPUT");
  CHECK(check_setting(output, "a-%p%%.gpuidle").ok());
  CHECK_FALSE(check_setting(output, "a-%q").ok());
  CHECK_FALSE(check_setting(output, "a-%").ok());
  CHECK_FALSE(check_setting(output, "folder/").ok());
}

TEST_CASE("an output pattern is filled in", "[config][unit]") {
  OutputFields fields;
  fields.pid = 42;
  fields.host = "node1";
  fields.program = "../evil name";
  fields.start_unix_s = 1'000'000'000;
  CHECK(expand_output_pattern("%h/%e-%p-%t-%n-100%%", fields) ==
        "node1/.._evil name-42-20010909T014640-0-100%");
}

TEST_CASE("a counter leads to another name with and without a field for it", "[config][unit]") {
  OutputFields fields;
  fields.pid = 42;
  CHECK(expand_output_pattern("d.x/%p.gpuidle", fields) == "d.x/42.gpuidle");
  fields.counter = 3;
  CHECK(expand_output_pattern("d.x/%p.gpuidle", fields) == "d.x/42-3.gpuidle");
  CHECK(expand_output_pattern("d.x/%p", fields) == "d.x/42-3");
  CHECK(expand_output_pattern("d.x/.hidden", fields) == "d.x/.hidden-3");
  CHECK(expand_output_pattern("d.x/%p-%n", fields) == "d.x/42-3");
  CHECK(expand_output_pattern("d.x/%p%%n", fields) == "d.x/42%n-3");
}

TEST_CASE("the globs of a pattern match what the pattern gives and not its neighbours",
          "[config][unit]") {
  const char* pattern =
      GENERATE("out/[a]*-%e-%p.gpuidle", "out/run-%h-%t.gpuidle", "plain", "%n%%.gpuidle");
  OutputFields fields = OutputFields::of_this_process();
  for (fields.counter = 0; fields.counter < 3; ++fields.counter) {
    const std::string path = expand_output_pattern(pattern, fields);
    CHECK(matches_any(output_globs(pattern, fields.host), path));
    CHECK(matches_any(output_globs(pattern, ""), path));
    CHECK_FALSE(matches_any(output_globs(pattern, fields.host), "x" + path));
  }
}

TEST_CASE("options are named like the variables", "[config][unit]") {
  bool found = false;
  for (const SettingRow& row : setting_rows()) {
    if (std::string(row.variable) != "GPUIDLE_FLUSH_INTERVAL_MS") continue;
    found = true;
    CHECK(row.option() == "--flush-interval-ms");
  }
  CHECK(found);
}

}  // namespace
}  // namespace gpuidle::base
