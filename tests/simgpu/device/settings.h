// SPDX-License-Identifier: Apache-2.0
// The SIMGPU_* environment variables, read once. The README has the one list of them.
#pragma once

#include <cstdint>
#include <string>

namespace simgpu {

struct Settings {
  bool virtual_clock = false;
  bool quiet = false;
  bool move_data = true;
  int devices = 1;
  uint64_t memory_bytes = uint64_t{16} << 30;
  int64_t default_kernel_ns = 10'000;
  int64_t launch_latency_ns = 3'000;
  int64_t copy_latency_ns = 1'500;
  double host_copy_gbps = 25.0;
  double pageable_copy_gbps = 10.0;
  double device_copy_gbps = 2000.0;
  double peer_copy_gbps = 50.0;
  unsigned queue_depth = 1024;
  std::string kernels_file;
  std::string timeline_file;
  std::string fault;
};

const Settings& settings();

/// Value of `name=value` in SIMGPU_FAULT: -1 if absent, 1 if it stands without a value.
int64_t fault(const char* name);

/// Parses "2ms", "50us", "100ns", "1s" or plain nanoseconds; -1 if it is none of them.
int64_t parse_duration(const char* text);

/// Writes the one line that says that times are simulated, once per process.
void announce();

/// Says once that an export has no implementation, and returns `result`.
extern "C" int simgpu_unimplemented(const char* name, int result);

}  // namespace simgpu
