// SPDX-License-Identifier: Apache-2.0
//
// Programs with a known cause of idleness, as recordings with exact times: the ledger, the split of
// the gaps and what opened them must come out to the nanosecond.
#include <catch2/catch.hpp>

#include "tests/unit/ledger_recording.h"

using namespace gpuidle;
using analysis::DeviceIdleness;
using analysis::Gap;
using analysis::GapGroup;
using analysis::Idleness;
using analysis::IdleSplit;
using analysis::Opener;
using model::ApiRole;
using tests::LedgerRecording;
using tests::ms;
using tests::us;

namespace {

void check_split(const IdleSplit& split, std::int64_t host_ns, std::int64_t call_ns,
                 std::int64_t device_ns) {
  CHECK(split.host_ns == host_ns);
  CHECK(split.call_ns == call_ns);
  CHECK(split.device_ns == device_ns);
  CHECK(split.unknown_ns == 0);
}

const DeviceIdleness& only_device(const Idleness& found) {
  REQUIRE(found.devices.size() == 1);
  CHECK(found.devices[0].ledger.sum_ns() == found.devices[0].ledger.wall_ns());
  return found.devices[0];
}

std::string_view api_name(const model::Recording& recording, model::ApiId api) {
  REQUIRE(api < recording.tables().apis().size());
  return recording.tables().string(recording.tables().apis()[api].name);
}

}  // namespace

TEST_CASE("preprocessing in the training thread starves the device", "[analysis][unit]") {
  LedgerRecording recording;
  const auto stack = recording.stack({{"__getitem__", "ds.py", 7}, {"fetch", "fetch.py", 50}});
  for (int step = 0; step < 10; ++step) {
    const double h = 8.03 * step;
    const auto copy = recording.copy_call(ms(h + 8.00), ms(h + 8.01), stack);
    const auto launch = recording.launch(ms(h + 8.01), ms(h + 8.02));
    recording.copy(ms(h + 8.02), ms(h + 8.12), copy);
    recording.kernel(ms(h + 8.12), ms(h + 10.12), launch);
  }
  const Idleness found = recording.analyze();
  const DeviceIdleness& device = only_device(found);
  CHECK(device.ledger.compute_ns == ms(20));
  CHECK(device.ledger.exposed_copy_ns == ms(1));
  CHECK(device.ledger.idle.total_ns() == 9 * ms(5.93));
  check_split(device.ledger.idle, 9 * ms(5.91), 9 * ms(0.01), 9 * ms(0.01));
  CHECK(device.gap_count() == 9);
  REQUIRE(found.groups.size() == 1);
  CHECK(found.groups[0].opener == Opener::ran_dry);
  CHECK(found.groups[0].stack == stack);
  CHECK(found.groups[0].count == 9);
  CHECK(api_name(recording, found.groups[0].api) == "cudaMemcpyAsync");
}

TEST_CASE("a scalar read-back stalls the host and then the device", "[analysis][unit]") {
  LedgerRecording recording;
  const double kernel_ms = GENERATE(2.0, 0.05);
  const auto stack = recording.stack({{"item", "train.py", 42}});
  const double period = kernel_ms + 1.04;
  for (int step = 0; step < 20; ++step) {
    const double h = period * step, done = h + 0.04 + kernel_ms;
    const auto launch = recording.launch(ms(h + 0.02), ms(h + 0.03));
    const auto copy = recording.copy_call(ms(h + 0.03), ms(h + 0.04), stack);
    recording.call("cudaStreamSynchronize", ApiRole::sync_blocking, ms(h + 0.04), ms(done + 0.02),
                   stack);
    recording.kernel(ms(h + 0.04), ms(done), launch);
    recording.copy(ms(done), ms(done + 0.01), copy);
  }
  const Idleness found = recording.analyze();
  const DeviceIdleness& device = only_device(found);
  CHECK(device.ledger.compute_ns == 20 * ms(kernel_ms));
  CHECK(device.ledger.exposed_copy_ns == 20 * ms(0.01));
  CHECK(device.ledger.idle.total_ns() == 19 * ms(1.03));
  check_split(device.ledger.idle, 19 * ms(1.01), 19 * ms(0.01), 19 * ms(0.01));
  REQUIRE(found.groups.size() == 1);
  const GapGroup& group = found.groups[0];
  CHECK(group.opener == Opener::blocked_in);
  CHECK(group.stack == stack);
  CHECK(api_name(recording, group.api) == "cudaStreamSynchronize");
  REQUIRE(group.saving_bound_ns);
  // The wait overlaps the device's work by kernel and copy; with short kernels that is all that
  // running ahead could hide, with long ones it is the whole gap.
  CHECK(*group.saving_bound_ns == 19 * std::min(ms(1.03), ms(kernel_ms + 0.01)));
}

TEST_CASE("a checkpoint written between steps is one run of large gaps", "[analysis][unit]") {
  LedgerRecording recording;
  const auto save =
      recording.stack({{"_save", "torch/serialization.py", 10}, {"save", "ckpt.py", 3}});
  recording.kernel(0, ms(100), recording.launch(ms(-0.02), ms(-0.01)));
  double h = 100;
  for (int part = 0; part < 3; ++part) {
    const auto copy =
        recording.call("cudaMemcpy", ApiRole::copy_blocking, ms(h - 0.02), ms(h + 20), save);
    recording.copy(ms(h), ms(h + 20), copy);
    h += 320;
  }
  recording.kernel(ms(1060), ms(1160), recording.launch(ms(1059.98), ms(1059.99)));
  const Idleness found = recording.analyze();
  const DeviceIdleness& device = only_device(found);
  CHECK(device.ledger.compute_ns == ms(200));
  CHECK(device.ledger.exposed_copy_ns == ms(60));
  CHECK(device.ledger.idle.total_ns() == ms(900));
  CHECK(device.gaps[2].count == 3);
  // Each write lies between a blocking copy that had returned and the next call: the copies' own
  // waits opened the gaps, though no more can be saved than what the device did
  // during the waits: the copies, and 0.02 ms of the last kernel before them.
  for (const GapGroup& group : found.groups) {
    CHECK(group.opener == Opener::blocked_in);
    CHECK(group.stack == save);
    CHECK(*group.saving_bound_ns == 3 * ms(20) + ms(0.02));
  }
}

TEST_CASE("launches slower than their kernels leave many small gaps", "[analysis][unit]") {
  LedgerRecording recording;
  SECTION("the host issues one launch at a time") {
    for (int i = 0; i < 2000; ++i) {
      const double t = 10.0 * i;
      recording.kernel(us(t + 6), us(t + 8), recording.launch(us(t), us(t + 5)));
    }
    const Idleness found = recording.analyze();
    const DeviceIdleness& device = only_device(found);
    check_split(device.ledger.idle, 1999 * us(2), 1999 * us(5), 1999 * us(1));
    CHECK(device.gaps[0].count == 1999);
    CHECK(device.gaps[1].count + device.gaps[2].count + device.gaps[3].count == 0);
  }
  SECTION("all launches are queued before the first kernel ends") {
    std::vector<std::uint32_t> launches;
    for (int i = 0; i < 2000; ++i) launches.push_back(recording.launch(i, i + 1));
    for (int i = 0; i < 2000; ++i) {
      recording.kernel(us(10 + 3.0 * i), us(12 + 3.0 * i), launches[static_cast<std::size_t>(i)]);
    }
    const Idleness found = recording.analyze();
    check_split(only_device(found).ledger.idle, 0, 0, 1999 * us(1));
  }
}

TEST_CASE("work that waits for another device's event was queued all the time",
          "[analysis][unit]") {
  LedgerRecording recording;
  recording.kernel(ms(0.02), ms(1.02), recording.launch(0, ms(0.01)));
  recording.device = 1;
  recording.kernel(ms(0.05), ms(5.00), recording.launch(ms(0.03), ms(0.04)), "p");
  recording.device = 0;
  recording.call("cudaStreamWaitEvent", ApiRole::event_wait, ms(0.07), ms(0.075));
  recording.kernel(ms(5.01), ms(6.01), recording.launch(ms(0.08), ms(0.09)));
  const Idleness found = recording.analyze();
  REQUIRE(found.devices.size() == 2);
  check_split(found.devices[0].ledger.idle, 0, 0, ms(3.99));
  CHECK(found.devices[0].ledger.sum_ns() == found.devices[0].ledger.wall_ns());
  CHECK(found.devices[1].ledger.idle.total_ns() == 0);
}

TEST_CASE("a synchronisation that only waits for queued work is no cause", "[analysis][unit]") {
  LedgerRecording recording;
  const auto first = recording.launch(0, us(1)), second = recording.launch(us(1), us(2));
  recording.kernel(us(5), ms(40), first);
  recording.call("cudaDeviceSynchronize", ApiRole::sync_blocking, us(3), ms(80));
  recording.kernel(ms(40), ms(80), second);
  const Idleness found = recording.analyze();
  CHECK(only_device(found).ledger.idle.total_ns() == 0);
  CHECK(found.groups.empty());
}

TEST_CASE("without the enqueuing call a gap's split is unknown", "[analysis][unit]") {
  LedgerRecording recording;
  recording.kernel(0, 100, recording.launch(-20, -10));
  recording.kernel(300, 400, 0);
  recording.kernel(900, 950, recording.launch(700, 710));
  const Idleness found = recording.analyze();
  const DeviceIdleness& device = only_device(found);
  CHECK(device.ledger.idle.unknown_ns == 200);
  CHECK(device.ledger.idle.host_ns == 300);
  CHECK(device.ledger.idle.call_ns == 10);
  CHECK(device.ledger.idle.device_ns == 190);
  CHECK(device.without_call_count == 1);
}

TEST_CASE("time that was not observed is neither busy nor idle", "[analysis][unit]") {
  LedgerRecording recording;
  recording.kernel(0, 100, recording.launch(-20, -10));
  recording.unobserved(90, 250);
  recording.unobserved(240, 260);
  recording.unobserved(300, 350);
  recording.kernel(500, 600, recording.launch(400, 410));
  const Idleness found = recording.analyze();
  const DeviceIdleness& device = only_device(found);
  CHECK(device.ledger.compute_ns == 190);
  CHECK(device.ledger.not_observed_ns == 220);
  CHECK(device.ledger.idle.unknown_ns == 40);  // [260, 300): who ended it was not observed
  CHECK(device.ledger.idle.host_ns == 50);     // [350, 400)
  CHECK(device.ledger.idle.call_ns == 10);
  CHECK(device.ledger.idle.device_ns == 90);
  for (const Gap& gap : found.largest) CHECK(gap.opener == Opener::unknown);
}

TEST_CASE("a collective that waits is kept apart from compute", "[analysis][unit]") {
  LedgerRecording recording;
  const auto call = recording.launch(-20, -10);
  recording.kernel(0, 10, call);
  recording.kernel(5, 30, call, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  recording.copy(20, 40, call);
  const Idleness found = recording.analyze();
  const DeviceIdleness& device = only_device(found);
  CHECK(device.ledger.compute_ns == 10);
  CHECK(device.ledger.exposed_communication_ns == 20);
  CHECK(device.ledger.exposed_copy_ns == 10);
  CHECK(*device.kernel_ratio() == Approx(0.75));
  CHECK(*device.any_ratio() == Approx(1.0));
  CHECK(*device.compute_ratio() == Approx(0.25));
}

TEST_CASE("calls alone prove idleness only after a device-wide synchronisation",
          "[analysis][unit]") {
  LedgerRecording recording;
  recording.mutable_info().source = model::Source::interposition;
  recording.mutable_tables().set_device({});
  recording.launch(0, 10);
  SECTION("from its return to the next enqueueing call") {
    recording.call("cudaDeviceSynchronize", ApiRole::sync_blocking, 20, 100);
    recording.launch(400, 410);
    const Idleness found = recording.analyze();
    const DeviceIdleness& device = only_device(found);
    CHECK(found.is_proof_only);
    CHECK(device.ledger.idle.host_ns == 300);
    CHECK(device.ledger.not_observed_ns == 110);
    REQUIRE(found.groups.size() == 1);
    CHECK(found.groups[0].opener == Opener::blocked_in);
  }
  SECTION("not after a stream's synchronisation") {
    recording.call("cudaStreamSynchronize", ApiRole::sync_blocking, 20, 100);
    recording.launch(400, 410);
    const Idleness found = recording.analyze();
    CHECK(only_device(found).ledger.idle.total_ns() == 0);
  }
  SECTION("not after one that failed") {
    recording.call("cudaDeviceSynchronize", ApiRole::sync_blocking, 20, 100);
    recording.records.calls.back().result = 700;
    recording.launch(400, 410);
    const Idleness found = recording.analyze();
    CHECK(only_device(found).ledger.idle.total_ns() == 0);
  }
  SECTION("not while another thread was enqueueing") {
    recording.call("cudaDeviceSynchronize", ApiRole::sync_blocking, 20, 100);
    recording.thread = recording.mutable_tables().intern_thread(1, 2, "other");
    recording.launch(90, 95);
    recording.launch(400, 410);
    const Idleness found = recording.analyze();
    CHECK(only_device(found).ledger.idle.total_ns() == 0);
  }
}
