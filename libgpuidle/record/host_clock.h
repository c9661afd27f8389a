// SPDX-License-Identifier: Apache-2.0
//
// The clock hooks stamp with: the processor's time stamp counter where the kernel itself keeps time
// by it (10 ns a look), else CLOCK_MONOTONIC (22 ns; two looks per call are most of what a recorded
// call costs). Raw ticks go into the rings; timeline::TickMap turns them into CLOCK_MONOTONIC ns.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace gpuidle::record {

/// CLOCK_MONOTONIC in ns, by the vdso. Context: any.
std::int64_t host_now_ns();

struct HostClock {
  bool is_tsc = false;
  double ticks_per_ns = 1.0;  ///< good to about 0.1 %: for thresholds, not for conversion
};
/// Written once by choose_host_clock(), before the first hook records.
extern HostClock g_host_clock;

/// Decides for the TSC if it is invariant and is the kernel's clock source. Takes 0.2 ms then.
/// Context: control.
void choose_host_clock();

/// Ticks of the chosen clock; they never run backwards on a thread. Context: hook.
inline std::int64_t host_ticks() {
#if defined(__x86_64__)
  if (g_host_clock.is_tsc) return static_cast<std::int64_t>(__rdtsc());
#endif
  return host_now_ns();
}

}  // namespace gpuidle::record
