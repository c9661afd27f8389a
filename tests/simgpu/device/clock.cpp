// SPDX-License-Identifier: Apache-2.0
#include "device/clock.h"

#include <sched.h>
#include <time.h>

#include <atomic>

#include "device/settings.h"

namespace simgpu {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kVirtualStartNs = kSecondNs;
constexpr int64_t kVirtualRealtimeOffsetNs = 1'700'000'000 * kSecondNs;
// A sleeping thread wakes up to some 50 us late; the rest is spent yielding.
constexpr int64_t kYieldNs = 60'000;

std::atomic<int64_t> virtual_now{kVirtualStartNs};

int64_t read_clock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * kSecondNs + time.tv_nsec;
}

bool is_virtual() {
  static const bool value = settings().virtual_clock;
  return value;
}

int64_t measure_offset() {
  int64_t best = 0;
  int64_t best_width = kSecondNs;
  for (int i = 0; i < 50; ++i) {
    int64_t before = read_clock(CLOCK_MONOTONIC);
    int64_t real = read_clock(CLOCK_REALTIME);
    int64_t after = read_clock(CLOCK_MONOTONIC);
    if (after - before < best_width) {
      best_width = after - before;
      best = real - (before + (after - before) / 2);
    }
  }
  return best;
}

}  // namespace

int64_t now_ns() {
  if (is_virtual()) return virtual_now.load(std::memory_order_relaxed);
  return read_clock(CLOCK_MONOTONIC);
}

void wait_until(int64_t time_ns) {
  if (is_virtual()) {
    int64_t now = virtual_now.load();
    while (now < time_ns && !virtual_now.compare_exchange_weak(now, time_ns)) {
    }
    return;
  }
  int64_t wake = time_ns - kYieldNs;
  if (read_clock(CLOCK_MONOTONIC) < wake) {
    timespec until = {wake / kSecondNs, wake % kSecondNs};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
    }
  }
  while (read_clock(CLOCK_MONOTONIC) < time_ns) sched_yield();
}

int64_t realtime_offset_ns() {
  static const int64_t value = is_virtual() ? kVirtualRealtimeOffsetNs : measure_offset();
  return value;
}

}  // namespace simgpu
