// SPDX-License-Identifier: Apache-2.0
//
// Scenarios of hosts that wait, write or launch too slowly: verdict, split to the nanosecond, bound
// of the saving, and what must not be advised.
#include <catch2/catch.hpp>

#include "tests/unit/scenarios.h"

using namespace gpuidle;
using analysis::Cause;
using analysis::Finding;
using tests::LedgerRecording;
using tests::ms;
using tests::Told;
using tests::us;

TEST_CASE("a value read back in every step costs what the wait could have hidden",
          "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S3a");
  const Finding* finding = told.find(Cause::scalar_read);
  REQUIRE(finding != nullptr);
  CHECK(finding->count == 59);
  CHECK(finding->total_ns == 59 * ms(1.03));
  CHECK(finding->split.host_ns == 59 * ms(1.01));
  CHECK(finding->split.call_ns == 59 * ms(0.01));
  CHECK(finding->split.device_ns == 59 * ms(0.01));
  CHECK(finding->saving_ns == 59 * ms(1.03));
}

TEST_CASE("after short kernels not waiting saves no more than they take", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S3b");
  const Finding* finding = told.find(Cause::scalar_read);
  REQUIRE(finding != nullptr);
  CHECK(finding->total_ns == 59 * ms(1.03));
  CHECK(*finding->saving_ns <= 59 * ms(0.07));
}

TEST_CASE("a value read now and then is nothing to mend", "[analysis][unit]") {
  LedgerRecording recording;
  CHECK(tests::tell(&recording, "S3c").findings.told.empty());
}

TEST_CASE("a checkpoint is one episode of copies and writes", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S5a");
  const Finding* finding = told.find(Cause::checkpoint_sync);
  REQUIRE(finding != nullptr);
  CHECK(finding->episode_count == 1);
  CHECK(finding->count == 3);
  CHECK(finding->split.total_ns() == ms(900));
  REQUIRE(finding->transfers.has_value());
  CHECK(finding->transfers->exposed_ns == ms(60));
  CHECK(finding->total_ns == ms(960));
  // It can go on beside the 200 ms that compute.
  CHECK(*finding->saving_ns <= ms(960));
}

TEST_CASE("a checkpoint beside the training, or a small result, is no checkpoint wait",
          "[analysis][unit]") {
  LedgerRecording background, upload;
  CHECK(tests::tell(&background, "S5b").findings.told.empty());
  const Told told = tests::tell(&upload, "S5c");
  CHECK(told.find(Cause::checkpoint_sync) == nullptr);
}

TEST_CASE("small launches are one finding with the host's part as the bound", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S6a");
  const Finding* finding = told.find(Cause::launch_bound);
  REQUIRE(finding != nullptr);
  CHECK(finding->count == 1999);
  CHECK(finding->split.host_ns == 1999 * us(2));
  CHECK(finding->split.call_ns == 1999 * us(5));
  CHECK(finding->split.device_ns == 1999 * us(1));
  CHECK(finding->saving_ns == 1999 * us(7));
}

TEST_CASE("launches queued in time are the device's own latency", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S6b");
  const Finding* finding = told.find(Cause::launch_latency);
  REQUIRE(finding != nullptr);
  CHECK(finding->split.device_ns == 1999 * us(1));
  CHECK(finding->split.host_ns == 0);
}

TEST_CASE("between graph replays nobody advises graphs", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S6c");
  const Finding* finding = told.find(Cause::replay_gap);
  REQUIRE(finding != nullptr);
  CHECK(finding->count == 499);
  CHECK(finding->total_ns == 499 * us(220));
  CHECK(analysis::row_of(finding->cause).fix.find("CUDA graphs") == std::string_view::npos);
}

TEST_CASE("a launch that waits for room in the queue is well fed", "[analysis][unit]") {
  LedgerRecording recording;
  const Told told = tests::tell(&recording, "S6d");
  CHECK(told.findings.told.empty());
  CHECK(told.found.devices[0].full_queue_count == 1);
  CHECK(told.found.devices[0].full_queue_ns == ms(40));
}

TEST_CASE("gaps into which nobody looked have the cause of those at the same call",
          "[analysis][unit]") {
  LedgerRecording recording;
  const auto waits = recording.stack({{"wait", "queue.py", 5}, {"train", "train.py", 9}});
  const auto copies = recording.stack({{"train", "train.py", 10}});
  // 80 gaps of 15 ms that end at the same copy; every fourth passes without a look.
  for (int i = 0; i < 80; ++i) {
    const std::int64_t at_ns = ms(20 * i);
    const auto copy = recording.copy_call(at_ns, at_ns + us(10), copies);
    recording.copy(at_ns + us(10), at_ns + us(50), copy);
    recording.kernel(at_ns + us(50), at_ns + ms(5),
                     recording.launch(at_ns + us(20), at_ns + us(30)));
    if (i % 4 == 3) continue;
    recording.sample(at_ns + ms(5), at_ns + ms(20), waits, model::ThreadActivity::waiting,
                     model::WaitTarget::lock);
  }
  const analysis::Idleness found = recording.analyze();
  const analysis::Findings findings = analysis::find_causes(recording, found, {});
  REQUIRE(findings.told.size() == 1);
  const analysis::Finding& finding = findings.told[0];
  CHECK(finding.cause == analysis::Cause::descheduled);
  CHECK(finding.count == 79);
  CHECK(finding.total_ns == found.idle_ns());
  CHECK(finding.grade == analysis::Grade::a);
}

TEST_CASE("who waits for another process does not run code", "[analysis][unit]") {
  for (const model::WaitTarget target :
       {model::WaitTarget::pipe, model::WaitTarget::local_socket, model::WaitTarget::child_process,
        model::WaitTarget::interpreter_lock}) {
    LedgerRecording recording;
    const auto waits = recording.stack({{"receive", "pool.py", 5}, {"train", "train.py", 9}});
    for (int i = 0; i < 10; ++i) {
      const std::int64_t at_ns = ms(20 * i);
      recording.kernel(at_ns, at_ns + ms(5), recording.launch(at_ns - us(20), at_ns - us(10)));
      recording.sample(at_ns + ms(5), at_ns + ms(19), waits, model::ThreadActivity::waiting,
                       target);
    }
    const analysis::Idleness found = recording.analyze();
    const analysis::Findings findings = analysis::find_causes(recording, found, {});
    REQUIRE(findings.told.size() == 1);
    CHECK(findings.told[0].cause == analysis::Cause::descheduled);
  }
}
