// SPDX-License-Identifier: Apache-2.0
//
// Threads that come and go by the thousand, each of which uses the device once. Fed by
// life_threads_test.py.
//   life_threads THREADS AT_ONCE
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/device_feeder.h"

namespace {

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::atol(line.c_str() + 6);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: life_threads THREADS AT_ONCE\n");
    return 2;
  }
  const int count = std::atoi(argv[1]);
  const int at_once = std::atoi(argv[2]);
  DeviceFeeder feeder;
  long half_way_kib = 0;
  for (int done = 0; done < count; done += at_once) {
    std::vector<std::thread> threads;
    for (int i = 0; i < at_once; ++i) {
      threads.emplace_back([&feeder] {
        feeder.use_in_this_thread();
        feeder.launch();
      });
    }
    for (std::thread& thread : threads) thread.join();
    feeder.synchronize();
    if (half_way_kib == 0 && done * 2 >= count) half_way_kib = resident_kib();
  }
  std::printf("%d threads\n", count);
  std::fprintf(stderr, "grown by %ld KiB\n", resident_kib() - half_way_kib);
  return 0;
}
