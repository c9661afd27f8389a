// SPDX-License-Identifier: Apache-2.0
//
// Device records that are lost, hand-made: what their kernels may have taken is never called idle,
// and nothing else changes.
#include "libgpuidle/analysis/lost_work.h"

#include <catch2/catch.hpp>

#include "tests/unit/ledger_recording.h"

using namespace gpuidle;
using model::ApiRole;
using model::LossReason;
using tests::LedgerRecording;
using tests::us;

namespace {

void lose(LedgerRecording* recording, LossReason reason, std::uint64_t count) {
  recording->mutable_info().losses.count[static_cast<std::size_t>(reason)] += count;
}

analysis::DeviceIdleness only_device(const analysis::Idleness& found) {
  REQUIRE(found.devices.size() == 1);
  const analysis::Ledger& ledger = found.devices[0].ledger;
  REQUIRE(ledger.sum_ns() == ledger.wall_ns());
  return found.devices[0];
}

// Kernels of 9 us every 10 us; those from `lost_from` to `lost_until` have a call and no record.
void add_loop(LedgerRecording* recording, int count, int lost_from, int lost_until) {
  for (int i = 0; i < count; ++i) {
    const auto correlation = recording->launch(us(10 * i), us(10 * i + 1));
    if (i >= lost_from && i < lost_until) continue;
    recording->kernel(us(10 * i + 1), us(10 * i + 10), correlation);
  }
}

}  // namespace

TEST_CASE("where most records of a queue have no times, their span is neither idle nor busy",
          "[analysis][unit]") {
  LedgerRecording recording;
  add_loop(&recording, 10'000, 8'994, 9'999);
  lose(&recording, LossReason::reversed_timestamp, 1);
  lose(&recording, LossReason::zero_timestamp, 1'004);
  const analysis::Idleness found = recording.analyze();
  const analysis::Ledger ledger = only_device(found).ledger;
  CHECK(found.lost_launch_count == 1'005);
  CHECK(ledger.compute_ns == us(9) * (10'000 - 1'005));
  // From the first lost launch to the start of the last kernel.
  CHECK(ledger.not_observed_ns == us(99'991 - 89'940));
  CHECK(ledger.idle.total_ns() == us(8'993));
}

TEST_CASE("a recording without losses is not doubted, whatever launches have no record",
          "[analysis][unit]") {
  LedgerRecording recording;
  add_loop(&recording, 100, 40, 60);
  const analysis::Idleness found = recording.analyze();
  CHECK(found.lost_launch_count == 0);
  CHECK(only_device(found).ledger.not_observed_ns == 0);
}

TEST_CASE("host calls that were dropped put no doubt on the device's records", "[analysis][unit]") {
  LedgerRecording recording;
  add_loop(&recording, 100, 40, 60);
  lose(&recording, LossReason::ring_full, 5);
  CHECK(only_device(recording.analyze()).ledger.not_observed_ns == 0);
}

TEST_CASE("time before a lost launch stays idle, a synchronisation ends the doubt",
          "[analysis][unit]") {
  LedgerRecording recording;
  recording.kernel(us(1), us(10), recording.launch(us(0), us(1)));
  recording.launch(us(50), us(51));  // lost
  recording.call("cudaDeviceSynchronize", ApiRole::sync_blocking, us(52), us(70));
  recording.kernel(us(101), us(110), recording.launch(us(100), us(101)));
  lose(&recording, LossReason::cupti_dropped, 1);
  const analysis::Ledger ledger = only_device(recording.analyze()).ledger;
  CHECK(ledger.not_observed_ns == us(70 - 50));
  CHECK(ledger.idle.total_ns() == us(50 - 10) + us(101 - 70));
  CHECK(ledger.compute_ns == us(18));
}

TEST_CASE("waiting for one stream does not end the doubt about the others", "[analysis][unit]") {
  LedgerRecording recording;
  recording.kernel(us(1), us(10), recording.launch(us(0), us(1)));
  recording.launch(us(50), us(51));  // lost
  recording.call("cudaStreamSynchronize", ApiRole::sync_blocking, us(52), us(70));
  recording.kernel(us(101), us(110), recording.launch(us(100), us(101)));
  lose(&recording, LossReason::cupti_dropped, 1);
  CHECK(only_device(recording.analyze()).ledger.not_observed_ns == us(101 - 50));
}

TEST_CASE("recorded work stays busy whatever else may have run beside it", "[analysis][unit]") {
  LedgerRecording recording;
  recording.kernel(us(1), us(10), recording.launch(us(0), us(1)));
  recording.launch(us(5), us(6));  // lost, and a copy of another stream runs all the while
  const auto copy = recording.copy_call(us(7), us(8));
  recording.stream = 2;
  recording.copy(us(12), us(90), copy);
  recording.stream = 1;
  recording.kernel(us(101), us(110), recording.launch(us(100), us(101)));
  lose(&recording, LossReason::zero_timestamp, 1);
  const analysis::Ledger ledger = only_device(recording.analyze()).ledger;
  CHECK(ledger.exposed_copy_ns == us(78));
  CHECK(ledger.not_observed_ns == us(2) + us(11));
  CHECK(ledger.idle.total_ns() == 0);
}

TEST_CASE("launches that failed, and those of other threads, leave no doubt behind",
          "[analysis][unit]") {
  LedgerRecording recording;
  recording.kernel(us(1), us(10), recording.launch(us(0), us(1)));
  recording.launch(us(20), us(21));
  recording.records.calls.back().result = 700;
  recording.kernel(us(41), us(50), recording.launch(us(40), us(41)));
  lose(&recording, LossReason::zero_timestamp, 1);
  const analysis::Idleness found = recording.analyze();
  CHECK(found.lost_launch_count == 0);
  CHECK(only_device(found).ledger.idle.total_ns() == us(31));
}

TEST_CASE("a span begins no earlier than the recorded kernel that was launched before it has ended",
          "[analysis][unit]") {
  LedgerRecording recording;
  const auto first = recording.launch(us(0), us(1));
  recording.launch(us(2), us(3));  // lost
  const auto last = recording.launch(us(4), us(5));
  recording.kernel(us(6), us(50), first);
  recording.kernel(us(80), us(90), last);
  lose(&recording, LossReason::zero_timestamp, 1);
  recording.seal();
  analysis::LostWork lost;
  REQUIRE(analysis::find_lost_work(recording, &lost).ok());
  REQUIRE(lost.spans.size() == 1);
  CHECK(lost.spans[0] == timeline::Interval{us(50), us(80)});
}
