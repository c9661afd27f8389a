// SPDX-License-Identifier: Apache-2.0
//
// Scenarios of programs whose data does not arrive: verdict, split to the nanosecond, bound of the
// saving, and what must not be advised.
#include <catch2/catch.hpp>

#include "tests/unit/scenarios.h"

using namespace gpuidle;
using analysis::Cause;
using analysis::Finding;
using analysis::Grade;
using tests::LedgerRecording;
using tests::ms;
using tests::Told;

TEST_CASE("preprocessing in the training thread is named after its own line", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S1");
  const Finding* finding = told.find(Cause::inline_preprocess);
  REQUIRE(finding != nullptr);
  CHECK(finding->grade == Grade::a);
  CHECK(finding->count == 9);
  CHECK(finding->total_ns == 9 * ms(5.93));
  CHECK(finding->split.host_ns == 9 * ms(5.91));
  CHECK(finding->split.call_ns == 9 * ms(0.01));
  CHECK(finding->split.device_ns == 9 * ms(0.01));
  // Nine kernels of 2 ms can hide as much of the loader's time, and no more.
  CHECK(finding->saving_ns == 9 * ms(2));
  REQUIRE(finding->places.size() == 1);
  CHECK(finding->places[0].stack == tests::inline_loader_stack(&recording));
  CHECK(told.found.groups.at(0).opener == analysis::Opener::ran_dry);
}

TEST_CASE("what the loader's workers did meanwhile is told", "[analysis][unit]") {
  LedgerRecording busy, remote;
  const Told from_busy = tests::tell(&busy, "S2a");
  const Told from_remote = tests::tell(&remote, "S2b");
  const auto state = [](analysis::WorkerState of) { return static_cast<std::size_t>(of); };
  const Finding* wait = from_busy.find(Cause::loader_wait);
  const Finding* read = from_remote.find(Cause::remote_read);
  REQUIRE((wait != nullptr && read != nullptr));
  CHECK(wait->worker_ns[state(analysis::WorkerState::busy)] == 9 * ms(5.93));
  CHECK(read->worker_ns[state(analysis::WorkerState::remote)] == 9 * ms(5.93));
  CHECK(wait->saving_ns == 9 * ms(2));
}

TEST_CASE("a loader's range names the wait without any stack", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S2c");
  const Finding* finding = told.find(Cause::loader_wait);
  REQUIRE(finding != nullptr);
  CHECK(finding->grade == Grade::a);
  CHECK(finding->total_ns == 9 * ms(6.03));
}

TEST_CASE("pageable copies cost what no kernel hides", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S4a");
  const Finding* finding = told.find(Cause::h2d_pageable);
  REQUIRE(finding != nullptr);
  REQUIRE(finding->transfers.has_value());
  CHECK(finding->transfers->count == 10);
  CHECK(finding->transfers->bytes == 640ULL << 20);
  CHECK(finding->transfers->exposed_ns == 10 * ms(9.9));
  CHECK(finding->transfers->is_source_known);
  CHECK(told.found.devices[0].ledger.exposed_copy_ns == ms(99));
}

TEST_CASE("pinned copies in line are told to be prefetched, not to be pinned", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S4b");
  const Finding* finding = told.find(Cause::h2d_blocking);
  REQUIRE(finding != nullptr);
  CHECK(finding->total_ns == 60 * ms(2.6));
  CHECK(analysis::row_of(finding->cause).fix.find("pin") == std::string_view::npos);
}

TEST_CASE("copies beside kernels, and small ones, are nothing to mend", "[analysis][unit]") {
  LedgerRecording beside, small;
  CHECK(tests::tell(&beside, "S4c").findings.told.empty());
  CHECK(tests::tell(&small, "S4d").findings.told.empty());
}
