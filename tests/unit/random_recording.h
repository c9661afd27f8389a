// SPDX-License-Identifier: Apache-2.0
//
// Recordings at random, for what must hold of every recording.
#pragma once

#include <cstdint>
#include <random>

#include "tests/unit/ledger_recording.h"

namespace gpuidle::tests {

// Threads that call in turn, on devices with several streams; some operations lose their call, some
// calls block, clocks are off by a little, some time is not observed.
inline void fill_randomly(LedgerRecording* recording, std::mt19937* random) {
  const auto upto = [&](int limit) { return static_cast<std::int64_t>((*random)() % limit); };
  const bool has_unobserved = upto(3) == 0;
  for (std::uint32_t thread = 1; thread <= 2; ++thread) {
    recording->thread = recording->mutable_tables().intern_thread(1, thread, "t");
    std::int64_t now_ns = upto(50);
    for (int i = 0; i < 25; ++i) {
      const std::int64_t enter_ns = now_ns, exit_ns = enter_ns + upto(30);
      now_ns = exit_ns + upto(20);
      if (upto(4) == 0) {
        recording->call("cudaStreamSynchronize", model::ApiRole::sync_blocking, enter_ns,
                        exit_ns + 15);
        now_ns += 15;
        continue;
      }
      const std::uint32_t correlation = recording->launch(enter_ns, exit_ns);
      for (std::int64_t ops = upto(8) == 0 ? 3 : 1; ops > 0; --ops) {
        const std::int64_t start_ns = enter_ns - 5 + upto(upto(6) == 0 ? 400 : 60);
        recording->device = static_cast<std::uint32_t>(upto(2));
        const bool is_orphan = upto(10) == 0;
        const auto kind = static_cast<model::ActivityKind>(1 + upto(4));
        recording->op(kind, start_ns, start_ns + upto(25), is_orphan ? 0 : correlation,
                      upto(4) == 0 ? "ncclDevKernel_x" : "k");
      }
    }
  }
  for (int i = 0; has_unobserved && i < 4; ++i) {
    const std::int64_t start_ns = upto(900);
    recording->unobserved(start_ns, start_ns + upto(80));
  }
}

}  // namespace gpuidle::tests
