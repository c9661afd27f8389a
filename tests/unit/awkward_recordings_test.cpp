// SPDX-License-Identifier: Apache-2.0
//
// Recordings that have misled other tools, hand-made: kernels that seem to start before their
// launch, graphs whose kernels share one launch, copies and waits that are neither work nor
// idleness.
#include <catch2/catch.hpp>

#include "tests/unit/ledger_recording.h"

using namespace gpuidle;
using model::ActivityKind;
using model::ApiRole;
using tests::LedgerRecording;
using tests::ms;
using tests::us;

namespace {

analysis::DeviceIdleness only_device(const analysis::Idleness& found) {
  REQUIRE(found.devices.size() == 1);
  const analysis::Ledger& ledger = found.devices[0].ledger;
  REQUIRE(ledger.sum_ns() == ledger.wall_ns());
  return found.devices[0];
}

}  // namespace

TEST_CASE("a kernel that starts a moment before its launch keeps launch and stack",
          "[analysis][unit]") {
  LedgerRecording recording;
  const auto line = recording.stack({{"step", "train.py", 40}});
  for (int burst = 0; burst < 64; ++burst) {
    for (int i = 0; i < 8; ++i) {
      const std::int64_t enter_ns = us(100 * burst) + 400 * i;
      const auto correlation = recording.launch(enter_ns, enter_ns + 300, line);
      // 0.2 to 1.5 us too early: the device's clock is ahead.
      const std::int64_t early_ns = 200 + 1300 * ((burst * 8 + i) % 14) / 13;
      recording.kernel(enter_ns - early_ns, enter_ns - early_ns + 350, correlation);
    }
  }
  const analysis::Idleness found = recording.analyze(100'000);
  const analysis::DeviceIdleness device = only_device(found);
  CHECK(device.kernel_count == 64 * 8);
  CHECK(device.without_call_count == 0);
  CHECK(device.ledger.idle.unknown_ns == 0);
  for (const analysis::Gap& gap : found.largest) {
    REQUIRE(gap.closing);
    CHECK(gap.closing->stack == line);
    CHECK(gap.split.host_ns >= 0);
    CHECK(gap.split.call_ns >= 0);
    CHECK(gap.split.device_ns >= 0);
    CHECK(gap.split.total_ns() == gap.length_ns());
  }
}

TEST_CASE("kernels of a graph count one by one, and gaps between replays lead to the graph launch",
          "[analysis][unit]") {
  constexpr int kReplays = 40, kKernels = 1049;
  LedgerRecording recording;
  const auto line = recording.stack({{"decode", "serve.py", 12}});
  std::int64_t now_ns = 0;
  for (int replay = 0; replay < kReplays; ++replay) {
    const auto correlation =
        recording.call("cudaGraphLaunch", ApiRole::graph_launch, now_ns, now_ns + us(10), line);
    std::int64_t start_ns = now_ns + us(12);
    for (int i = 0; i < kKernels; ++i) {
      recording.kernel(start_ns, start_ns + us(3), correlation);
      start_ns += us(4);
    }
    now_ns = start_ns + us(500);
  }
  const analysis::Idleness found = recording.analyze(kReplays);
  const analysis::DeviceIdleness device = only_device(found);
  CHECK(device.kernel_count == kReplays * kKernels);
  CHECK(device.without_call_count == 0);
  CHECK(device.ledger.compute_ns == us(3) * kReplays * kKernels);
  int between_replays = 0;
  for (const analysis::Gap& gap : found.largest) {
    if (gap.length_ns() < us(100)) continue;
    ++between_replays;
    REQUIRE(gap.closing);
    CHECK(gap.closing->stack == line);
    CHECK(gap.cause == analysis::Cause::replay_gap);
    CHECK(gap.split.host_ns == us(501));
  }
  CHECK(between_replays == kReplays - 1);
}

TEST_CASE("computing, copying and doing nothing are three figures, and waiting is none of them",
          "[analysis][unit]") {
  LedgerRecording recording;
  // 1,000 ms: 60 % kernels, 14.4 % copies alone, the rest nothing; waits lie over all of it.
  for (int i = 0; i < 10; ++i) {
    const std::int64_t at_ns = ms(100 * i);
    const auto copy = recording.copy_call(at_ns, at_ns + us(5));
    const auto kernel = recording.launch(at_ns + us(6), at_ns + us(11));
    recording.copy(at_ns, at_ns + us(14'400), copy);
    recording.kernel(at_ns + us(14'400), at_ns + us(74'400), kernel);
    recording.call("cudaStreamSynchronize", ApiRole::sync_blocking, at_ns + us(20),
                   at_ns + us(74'410));
    recording.call("cudaEventSynchronize", ApiRole::sync_blocking, at_ns + us(74'420),
                   at_ns + us(99'000));
  }
  recording.kernel(ms(1000), ms(1000), recording.launch(ms(999.9), ms(999.95)));
  const analysis::DeviceIdleness device = only_device(recording.analyze());
  CHECK(device.ledger.wall_ns() == ms(1000));
  CHECK(device.ledger.compute_ns == ms(600));
  CHECK(device.ledger.exposed_copy_ns == ms(144));
  CHECK(device.ledger.idle.total_ns() == ms(256));
}
