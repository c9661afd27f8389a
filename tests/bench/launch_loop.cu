// SPDX-License-Identifier: Apache-2.0
//
// The program whose launches tests/bench/overhead.py times. It measures itself, from outside the
// CUDA call, and prints one JSON object; what is preloaded or injected around it is the variable.
//
//   launch_loop tight COUNT         launches back to back: no gap is closed
//   launch_loop gap COUNT DEPTH     each launch after 30 us away, from DEPTH nested functions
//   launch_loop paced COUNT         10 us of work and one launch per round: 100,000 launches/s
#include <cuda_runtime.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

__global__ void empty_kernel() {}

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "launch_loop: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Work of a fixed number of operations, not of a fixed time: a slower loop must show.
std::uint64_t work(std::uint64_t rounds) {
  std::uint64_t x = rounds | 1;
  for (std::uint64_t i = 0; i < rounds; ++i)
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
  return x;
}

std::int64_t timed_launch() {
  const std::int64_t start_ns = now_ns();
  empty_kernel<<<1, 32>>>();
  return now_ns() - start_ns;
}

__attribute__((noinline)) std::int64_t launch_from(int depth) {
  if (depth <= 1) return timed_launch();
  const std::int64_t took_ns = launch_from(depth - 1);
  __asm__ volatile("" ::: "memory");  // not a tail call: every level keeps its frame
  return took_ns;
}

void print_sorted(std::vector<std::int64_t>& times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  const auto at = [&](double share) {
    return static_cast<long long>(
        times_ns[static_cast<std::size_t>(share * (times_ns.size() - 1))]);
  };
  std::printf("{\"p10_ns\": %lld, \"median_ns\": %lld, \"p90_ns\": %lld, \"p99_ns\": %lld}\n",
              at(0.1), at(0.5), at(0.9), at(0.99));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: launch_loop tight|gap|paced COUNT [DEPTH]\n");
    return 2;
  }
  const long count = std::strtol(argv[2], nullptr, 10);
  const int depth = argc > 3 ? std::atoi(argv[3]) : 1;
  check(cudaFree(nullptr));
  for (int i = 0; i < 1000; ++i) launch_from(depth);  // warm: rings, caches, first-touch pages
  check(cudaDeviceSynchronize());
  std::vector<std::int64_t> times_ns;
  times_ns.reserve(static_cast<std::size_t>(count));
  if (std::strcmp(argv[1], "paced") == 0) {
    std::uint64_t rounds = 1000;  // calibrated to 10 us before the clock starts
    for (int i = 0; i < 200; ++i) {
      const std::int64_t start_ns = now_ns();
      const volatile std::uint64_t kept = work(rounds);
      (void)kept;
      const std::int64_t took_ns = std::max<std::int64_t>(now_ns() - start_ns, 1);
      if (i >= 100) rounds = std::max<std::uint64_t>(rounds * 10'000 / took_ns, 100);
    }
    // The same rounds for every configuration that is compared: given by the caller where it must.
    if (argc > 3) rounds = std::strtoull(argv[3], nullptr, 10);
    std::uint64_t sum = 0;
    const std::int64_t start_ns = now_ns();
    for (long i = 0; i < count; ++i) {
      sum += work(rounds);
      empty_kernel<<<1, 32>>>();
    }
    const std::int64_t took_ns = now_ns() - start_ns;
    check(cudaDeviceSynchronize());
    std::printf("{\"total_ns\": %lld, \"rounds\": %llu, \"sum\": %llu}\n",
                static_cast<long long>(took_ns), static_cast<unsigned long long>(rounds),
                static_cast<unsigned long long>(sum % 10));
    return 0;
  }
  const bool with_gap = std::strcmp(argv[1], "gap") == 0;
  for (long i = 0; i < count; ++i) {
    if (with_gap) {
      for (const std::int64_t until_ns = now_ns() + 30'000; now_ns() < until_ns;) {
      }
    }
    times_ns.push_back(launch_from(depth));
    // The queue must not fill up: a blocking launch would measure the device.
    if (i % 512 == 511) check(cudaDeviceSynchronize());
  }
  check(cudaDeviceSynchronize());
  print_sorted(times_ns);
  return 0;
}
