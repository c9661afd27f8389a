// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/record/host_clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gpuidle::record {
namespace {

// The kernel stops using the TSC as its clock source when it finds it drifting or out of step
// between processors; what it trusts, we trust.
bool is_kernel_clock_source_tsc() {
  char name[16] = {};
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                      O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t length = read(fd, name, sizeof(name) - 1);
  close(fd);
  return length >= 3 && std::strncmp(name, "tsc\n", 4) == 0;
}

bool is_tsc_invariant() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

HostClock g_host_clock;

std::int64_t host_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void choose_host_clock() {
#if defined(__x86_64__)
  if (!is_tsc_invariant() || !is_kernel_clock_source_tsc()) return;
  constexpr std::int64_t kMeasured_ns = 200'000;
  const std::int64_t start_ns = host_now_ns();
  const auto start_ticks = static_cast<std::int64_t>(__rdtsc());
  std::int64_t end_ns = start_ns;
  while (end_ns - start_ns < kMeasured_ns) end_ns = host_now_ns();
  const auto ticks = static_cast<std::int64_t>(__rdtsc()) - start_ticks;
  if (ticks <= 0) return;
  g_host_clock = {true, static_cast<double>(ticks) / static_cast<double>(end_ns - start_ns)};
#endif
}

}  // namespace gpuidle::record
