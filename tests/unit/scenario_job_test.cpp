// SPDX-License-Identifier: Apache-2.0
//
// Scenarios of several devices, of memory, and of the job around its device work.
#include <catch2/catch.hpp>

#include "tests/unit/scenarios.h"

using namespace gpuidle;
using analysis::Cause;
using analysis::Finding;
using analysis::Grade;
using tests::LedgerRecording;
using tests::ms;
using tests::Told;

TEST_CASE("queued work waits for another device's event", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S7");
  const Finding* finding = told.find(Cause::stream_wait);
  REQUIRE(finding != nullptr);
  CHECK(finding->grade == Grade::b);
  CHECK(finding->count == 20);
  CHECK(finding->split.device_ns == 20 * ms(3.99));
  CHECK(finding->split.host_ns + finding->split.call_ns == 0);
}

TEST_CASE("one rank alone cannot tell an exchange from a straggler", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S8");
  const Finding* finding = told.find(Cause::comm_exposed);
  REQUIRE(finding != nullptr);
  CHECK(finding->grade == Grade::c);
  CHECK(finding->is_likely);
  CHECK(finding->total_ns == ms(20));
  CHECK(told.found.devices[0].kernel_ratio() == Approx(1.0));
  CHECK(told.found.devices[0].compute_ratio() == Approx(1.0 / 3));
}

TEST_CASE("a larger batch is advised where launching costs most and memory is free",
          "[analysis][unit]") {
  for (const char* const name : {"S9a", "S9e"}) {
    LedgerRecording recording;
    const Told told = tests::tell(&recording, name);
    const Finding* finding = told.find(Cause::small_batch);
    REQUIRE(finding != nullptr);
    CHECK(told.findings.told.back().cause == Cause::small_batch);
    CHECK(finding->devices == std::vector<std::uint32_t>{0});
    // What it explains is counted elsewhere.
    CHECK(finding->total_ns == 0);
    CHECK_FALSE(finding->saving_ns.has_value());
    CHECK(told.findings.combined_saving_ns <= told.found.idle_ns());
  }
  LedgerRecording half;
  CHECK(tests::tell(&half, "S9e").found.devices[0].kernel_ratio() == 0.5);
}

TEST_CASE("no larger batch is advised where there is no room, or it is not the cause",
          "[analysis][unit]") {
  for (const char* const name : {"S9b", "S9c", "S9f"}) {
    LedgerRecording recording;
    CHECK(tests::tell(&recording, name).find(Cause::small_batch) == nullptr);
  }
  LedgerRecording behind;
  const Told told = tests::tell(&behind, "S9c");
  CHECK(told.find(Cause::loader_wait)->total_ns * 10 >= told.found.idle_ns() * 6);
}

TEST_CASE("memory findings are not made where devices are numbered differently",
          "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S9a");
  analysis::MemoryUse use;
  use.device = 1;
  use.total_bytes = 100;
  use.reserved = analysis::MemoryPeak{10, 0};
  const auto findings = analysis::find_causes(recording, told.found, {}, {use});
  CHECK(findings.told.size() + 1 == told.findings.told.size());
}

TEST_CASE("memory that is flushed and taken again is churn", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S9d");
  const Finding* finding = told.find(Cause::alloc_churn);
  REQUIRE(finding != nullptr);
  CHECK(finding->count == 12);
  CHECK(finding->total_ns == 12 * ms(16.03));
}

TEST_CASE("start-up, lingering and an unused device are told apart", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S10a");
  const Finding* startup = told.find(Cause::startup);
  const Finding* linger = told.find(Cause::linger);
  const Finding* unused = told.find(Cause::device_unused);
  REQUIRE((startup != nullptr && linger != nullptr && unused != nullptr));
  CHECK(startup->total_ns == ms(109'000));
  CHECK(linger->total_ns == ms(1'222'000 - 112'000));
  CHECK(unused->devices == std::vector<std::uint32_t>{1});
  CHECK(told.findings.told.front().cause == Cause::device_unused);
}

TEST_CASE("launches that block are told before all else", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S10c");
  REQUIRE_FALSE(told.findings.told.empty());
  CHECK(told.findings.told.front().cause == Cause::launch_blocking);
}

TEST_CASE("a steadily busy device is left alone", "[analysis][unit]") {
  LedgerRecording recording;
  CHECK(tests::tell(&recording, "S10d").findings.told.empty());
}
