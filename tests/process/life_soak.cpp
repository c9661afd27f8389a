// SPDX-License-Identifier: Apache-2.0
//
// A program that launches 100,000 times a second, while threads come and go and children are
// forked, until SIGTERM. Fed by life_soak_test.py; writes ten times a second how many launches its
// main thread has made so far and how much processor time that thread has had, in ns.
//   life_soak
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/process/device_feeder.h"

namespace {

constexpr int kBurst = 200;
// Faster than this the simulated CUPTI's own queue grows on two processors.
constexpr auto kBurstPeriod = std::chrono::milliseconds(2);
constexpr int kRoundsPerFork = 10;

std::atomic<bool> g_is_over{false};

long long now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void come_and_go(DeviceFeeder& feeder) {
  for (int round = 0; !g_is_over; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&feeder] {
        feeder.use_in_this_thread();
        for (int n = 0; n < 5; ++n) feeder.launch();
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (round % kRoundsPerFork == 0) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      int status = 0;
      if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        std::fprintf(stderr, "a child did not end as it should\n");
        std::exit(8);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

int main() {
  std::signal(SIGTERM, [](int) { g_is_over = true; });
  DeviceFeeder feeder;
  std::thread others([&feeder] { come_and_go(feeder); });
  long long launches = 0;
  long long next_ns = 0;
  auto burst = std::chrono::steady_clock::now();
  while (!g_is_over) {
    burst = std::max(burst + kBurstPeriod, std::chrono::steady_clock::now());
    std::this_thread::sleep_until(burst);
    for (int i = 0; i < kBurst; ++i) feeder.launch();
    launches += kBurst;
    feeder.synchronize();
    if (now_ns(CLOCK_MONOTONIC) < next_ns) continue;
    next_ns = now_ns(CLOCK_MONOTONIC) + 100'000'000;
    std::printf("%lld %lld\n", launches, now_ns(CLOCK_THREAD_CPUTIME_ID));
    std::fflush(stdout);
  }
  others.join();
  std::printf("over\n");
  return 0;
}
