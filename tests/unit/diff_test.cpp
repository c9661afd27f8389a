// SPDX-License-Identifier: Apache-2.0
//
// Two runs compared: sums, the unit, chance, and what became of predictions.
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

#include "libgpuidle/analysis/compare.h"
#include "tests/unit/ledger_recording.h"

namespace gpuidle::tests {
namespace {

using analysis::Cause;
using analysis::Outcome;
using analysis::RunFigures;

constexpr std::size_t at(Cause cause) { return static_cast<std::size_t>(cause); }

// A run of 1 s on one device, 600 ms of it idle for want of data.
RunFigures run() {
  RunFigures figures;
  figures.wall_ns = 1'000'000'000;
  figures.parts_ns = {400'000'000, 0, 0, 600'000'000, 0, 0, 0, 0};
  figures.idle_by_cause_ns[at(Cause::inline_preprocess)] = 600'000'000;
  figures.predicted_ns[at(Cause::inline_preprocess)] = 400'000'000;
  return figures;
}

// `idle_ns` instead of 600 ms.
RunFigures run_after(std::int64_t idle_ns) {
  RunFigures figures = run();
  figures.wall_ns = 400'000'000 + idle_ns;
  figures.parts_ns[3] = idle_ns;
  figures.idle_by_cause_ns[at(Cause::inline_preprocess)] = idle_ns;
  return figures;
}

TEST_CASE("without steps whole recordings are compared, and nothing is called significant") {
  const analysis::RunComparison compared = compare_runs(run(), run_after(200'000'000));
  CHECK_FALSE(compared.is_per_step);
  CHECK_FALSE(compared.chance.has_value());
  CHECK(compared.wall_before_ns == Approx(1e9));
  CHECK(compared.wall_after_ns == Approx(6e8));
  REQUIRE(compared.causes.size() == 1);
  CHECK(compared.causes[0].before_ns == Approx(6e8));
  CHECK(compared.causes[0].after_ns == Approx(2e8));
}

TEST_CASE("with steps on both sides all figures are per step, whatever the recordings' lengths") {
  RunFigures before = run(), after = run_after(200'000'000);
  before.steps_ns = {100'000'000, 100'000'000, 100'000'000};
  after.wall_ns *= 10;
  for (std::int64_t& part_ns : after.parts_ns) part_ns *= 10;
  after.idle_by_cause_ns[at(Cause::inline_preprocess)] *= 10;
  after.steps_ns = {60'000'000, 60'000'000, 60'000'000};
  const analysis::RunComparison compared = compare_runs(before, after);
  REQUIRE(compared.is_per_step);
  CHECK(compared.wall_before_ns == Approx(1e8));
  CHECK(compared.wall_after_ns == Approx(6e7));
  CHECK(compared.before_ns[0] == Approx(4e7));
  CHECK(compared.after_ns[0] == Approx(4e7));
  CHECK(compared.causes[0].after_ns == Approx(2e7));
  CHECK(compared.causes[0].predicted_ns == Approx(4e7));
  const double sum = std::accumulate(compared.after_ns.begin(), compared.after_ns.end(), 0.0);
  CHECK(sum == Approx(compared.wall_after_ns));
}

TEST_CASE("a prediction is graded by what its cause lost") {
  const auto outcome = [](std::int64_t idle_after_ns) {
    return *compare_runs(run(), run_after(idle_after_ns)).causes.at(0).outcome;
  };
  CHECK(outcome(200'000'000) == Outcome::came_true);
  CHECK(outcome(400'000'000) == Outcome::came_true);
  CHECK(outcome(401'000'000) == Outcome::in_part);
  CHECK(outcome(561'000'000) == Outcome::did_not_come);
  CHECK(outcome(700'000'000) == Outcome::did_not_come);
  CHECK(outcome(100'000'000) == Outcome::exceeded);
}

TEST_CASE("chance is counted exactly where there are few steps") {
  // Of the 20 ways to choose 3 of these 6, two are as far apart as the one observed.
  CHECK(analysis::chance_of({1, 2, 3}, {11, 12, 13}) == Approx(2.0 / 20));
  CHECK(analysis::chance_of({5, 5, 5}, {5, 5, 5}) == Approx(1));
  CHECK(analysis::chance_of({1, 2, 3, 4}, {11, 12, 13, 14}) == Approx(2.0 / 70));
  CHECK_FALSE(analysis::chance_of({1, 2}, {11, 12, 13}));
}

TEST_CASE("chance is sampled where there are many steps, the same way every time") {
  std::vector<std::int64_t> slow, fast, same;
  for (std::int64_t i = 0; i < 200; ++i) {
    slow.push_back(1000 + i * 37 % 100);
    fast.push_back(950 + i * 53 % 100);
    same.push_back(1000 + i * 41 % 100);
  }
  const auto far = analysis::chance_of(slow, fast), near = analysis::chance_of(slow, same);
  REQUIRE(far);
  REQUIRE(near);
  CHECK(*far > 0);
  CHECK(*far < 0.001);
  CHECK(*near > 0.2);
  CHECK(analysis::chance_of(slow, same) == near);
}

TEST_CASE("steps are ranges, or the distances between marked moments") {
  model::Slice slice;
  const auto step = [&slice](std::int64_t start_ns, std::int64_t end_ns) {
    model::Marker marker;
    marker.kind = model::Marker::Kind::step;
    marker.start_ns = start_ns;
    marker.end_ns = end_ns;
    slice.markers.push_back(marker);
  };
  SECTION("ranges") {
    step(0, 10);
    step(20, 35);
    analysis::StepMeter meter;
    meter.on_slice(slice);
    CHECK(meter.durations_ns() == std::vector<std::int64_t>{10, 15});
  }
  SECTION("moments, across slices") {
    step(5, 5);
    step(12, 12);
    analysis::StepMeter meter;
    meter.on_slice(slice);
    slice.markers.clear();
    step(30, 30);
    meter.on_slice(slice);
    CHECK(meter.durations_ns() == std::vector<std::int64_t>{7, 18});
  }
}

TEST_CASE("the parts of a ledger add up to its wall time") {
  LedgerRecording recording;
  recording.kernel(0, ms(1), recording.launch(0, us(1)));
  recording.copy(ms(2), ms(3), recording.copy_call(ms(1.5), ms(1.7)));
  recording.kernel(ms(4), ms(6), recording.launch(ms(3.5), ms(3.6)));
  const analysis::Idleness found = recording.analyze();
  const RunFigures figures = analysis::figures_of(found, {}, {});
  CHECK(figures.wall_ns == ms(6));
  CHECK(std::accumulate(figures.parts_ns.begin(), figures.parts_ns.end(), std::int64_t{0}) ==
        figures.wall_ns);
  CHECK(figures.idle_ns() == ms(2));
  CHECK(std::accumulate(figures.idle_by_cause_ns.begin(), figures.idle_by_cause_ns.end(),
                        std::int64_t{0}) == ms(2));
}

}  // namespace
}  // namespace gpuidle::tests
