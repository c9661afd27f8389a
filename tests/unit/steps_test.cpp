// SPDX-License-Identifier: Apache-2.0
//
// Iterations are found by what repeats, or by their marks, and the slow ones have their reason.
#include "libgpuidle/analysis/steps.h"

#include <catch2/catch.hpp>

#include "tests/unit/ledger_recording.h"

using namespace gpuidle;
using analysis::Cause;
using analysis::StepTimes;
using tests::LedgerRecording;
using tests::ms;

namespace {

// Steps of 10 ms: four layers of one kernel each, then the optimizer's. Each tenth step starts 20
// ms late, because the loader is late.
void fill(LedgerRecording* recording, int steps) {
  double h = 0;
  for (int step = 0; step < steps; ++step) {
    if (step % 10 == 9) {
      recording->range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", ms(h),
                       ms(h + 19.9));
      h += 20;
    }
    for (int layer = 0; layer < 4; ++layer) {
      const double at = h + 2 * layer;
      recording->kernel(ms(at), ms(at + 2), recording->launch(ms(at - 0.05), ms(at - 0.04)),
                        "layer");
    }
    recording->kernel(ms(h + 8), ms(h + 10), recording->launch(ms(h + 7), ms(h + 7.01)), "adam");
    h += 10;
  }
}

std::optional<StepTimes> measure(LedgerRecording* recording) {
  recording->seal();
  analysis::StepFinder meter(*recording);
  analysis::Options options;
  options.gaps = &meter;
  options.also = {&meter};
  analysis::Idleness found;
  REQUIRE(analysis::analyze(*recording, options, &found).ok());
  return meter.finish();
}

}  // namespace

TEST_CASE("what is launched once per step marks the steps", "[analysis][unit]") {
  LedgerRecording recording;
  fill(&recording, 60);
  const auto steps = measure(&recording);
  REQUIRE(steps.has_value());
  CHECK_FALSE(steps->is_marked);
  CHECK(recording.tables().string(steps->name) == "adam");
  CHECK(steps->count == 59);
  CHECK(steps->median_ns == ms(10));
  CHECK(steps->shortest_ns == ms(10));
  CHECK(steps->longest_ns == ms(30));
  CHECK(steps->p95_ns == ms(30));
  CHECK(steps->slow_count == 6);
  CHECK(steps->slow_extra_ns == 6 * ms(20));
  REQUIRE(steps->reasons.size() == 1);
  CHECK(steps->reasons[0].cause == Cause::loader_wait);
  CHECK(steps->reasons[0].extra_ns == 6 * ms(20));
}

TEST_CASE("marked steps go before repetition", "[analysis][unit]") {
  LedgerRecording recording;
  fill(&recording, 60);
  for (int step = 0; step < 12; ++step) {
    recording.range("ProfilerStep", ms(60 * step), ms(60 * step + 60));
    recording.records.markers.back().kind = model::Marker::Kind::step;
  }
  const auto steps = measure(&recording);
  REQUIRE(steps.has_value());
  CHECK(steps->is_marked);
  CHECK(steps->count == 11);
  CHECK(steps->median_ns == ms(60));
  CHECK(steps->slow_count == 0);
}

TEST_CASE("a single kernel again and again, or too few steps, are no steps", "[analysis][unit]") {
  LedgerRecording alone, few;
  for (int i = 0; i < 1000; ++i) {
    alone.kernel(ms(i), ms(i + 0.5), alone.launch(ms(i - 0.02), ms(i - 0.01)));
  }
  CHECK_FALSE(measure(&alone).has_value());
  fill(&few, 4);
  CHECK_FALSE(measure(&few).has_value());
}
