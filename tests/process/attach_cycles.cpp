// SPDX-License-Identifier: Apache-2.0
//
//   attach_cycles PID COUNT LIBRARY
//
// Puts LIBRARY into PID COUNT times, each time as if it were the first, and prints one line of
// JSON: failures with the first reason, and how long the borrowed threads were stopped.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/gpuidle/inject/injector.h"
#include "tools/gpuidle/process_facts.h"

using namespace gpuidle;

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: attach_cycles PID COUNT LIBRARY\n");
    return 2;
  }
  const auto pid = static_cast<pid_t>(std::atoi(argv[1]));
  const int count = std::atoi(argv[2]);
  std::vector<std::int64_t> stopped_ns;
  std::string reason;
  int failures = 0;
  std::uint64_t probes = 0;
  for (int i = 0; i < count; ++i) {
    base::Result<cli::ProcessFacts> process = cli::read_process(pid);
    if (!process.ok()) {
      std::fprintf(stderr, "attach_cycles: %s\n", process.status().message().c_str());
      return 1;
    }
    base::Result<cli::Injection> injected = cli::inject(process.value(), argv[3]);
    if (injected.ok()) {
      stopped_ns.push_back(injected.value().stopped_ns);
      probes += injected.value().probes;
    } else if (++failures == 1) {
      reason = injected.status().message();
    }
  }
  std::sort(stopped_ns.begin(), stopped_ns.end());
  const bool has_any = !stopped_ns.empty();
  std::printf(
      "{\"failures\": %d, \"stopped_median_ns\": %lld, \"stopped_max_ns\": %lld, "
      "\"probes\": %llu}\n",
      failures, has_any ? static_cast<long long>(stopped_ns[stopped_ns.size() / 2]) : -1,
      has_any ? static_cast<long long>(stopped_ns.back()) : -1,
      static_cast<unsigned long long>(probes));
  if (failures != 0) std::fprintf(stderr, "attach_cycles: %s\n", reason.c_str());
  return failures == 0 ? 0 : 1;
}
