// SPDX-License-Identifier: Apache-2.0
// The clock of the simulated devices: CLOCK_MONOTONIC, or a virtual one that only waits move.
#pragma once

#include <cstdint>

namespace simgpu {

/// The device clock in ns.
int64_t now_ns();

/// Returns at `time_ns`, within a few microseconds; a virtual clock jumps there.
void wait_until(int64_t time_ns);

/// CLOCK_REALTIME minus the device clock, measured once (fixed for a virtual clock).
int64_t realtime_offset_ns();

}  // namespace simgpu
