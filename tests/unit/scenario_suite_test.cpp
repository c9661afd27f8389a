// SPDX-License-Identifier: Apache-2.0
//
// Precision and recall of the causes over all scenarios, as a table. Both must be 1.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>

#include "tests/unit/scenarios.h"

using namespace gpuidle;
using analysis::Cause;

TEST_CASE("every scenario tells its causes and no other", "[analysis][unit]") {
  struct Row {
    int right = 0, wrong = 0, missed = 0;
  };
  std::map<Cause, Row> rows;
  for (const tests::Scenario& scenario : tests::scenarios()) {
    tests::LedgerRecording recording;
    scenario.fill(&recording);
    const analysis::Idleness found = recording.analyze();
    const analysis::Findings findings = tests::causes_of(recording, found);
    std::vector<Cause> told;
    for (const analysis::Finding& finding : findings.told) told.push_back(finding.cause);
    const auto has = [](const std::vector<Cause>& causes, Cause cause) {
      return std::find(causes.begin(), causes.end(), cause) != causes.end();
    };
    for (const Cause cause : told) {
      ++(has(scenario.told, cause) ? rows[cause].right : rows[cause].wrong);
    }
    for (const Cause cause : scenario.told) {
      if (!has(told, cause)) ++rows[cause].missed;
    }
  }
  Row all;
  std::printf("%-26s %6s %6s %7s\n", "cause", "right", "wrong", "missed");
  for (const auto& [cause, row] : rows) {
    std::printf("%-26s %6d %6d %7d\n", analysis::row_of(cause).id.data(), row.right, row.wrong,
                row.missed);
    all.right += row.right;
    all.wrong += row.wrong;
    all.missed += row.missed;
  }
  REQUIRE(all.right > 0);
  const double precision = double(all.right) / (all.right + all.wrong);
  const double recall = double(all.right) / (all.right + all.missed);
  std::printf("%zu scenarios: precision %.3f, recall %.3f\n", tests::scenarios().size(), precision,
              recall);
  CHECK(precision == 1.0);
  CHECK(recall == 1.0);
}
