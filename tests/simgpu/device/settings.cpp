// SPDX-License-Identifier: Apache-2.0
#include "device/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simgpu {
namespace {

void say(const char* text) {
  // One write, so that lines of several processes do not mix.
  ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  (void)written;
}

int64_t duration_or(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int64_t value = parse_duration(text);
  if (value < 0) {
    say("simgpu: a duration in the environment is not like 2ms, 50us or 100ns; default used\n");
    return otherwise;
  }
  return value;
}

void read_bandwidth(Settings* settings) {
  const char* text = std::getenv("SIMGPU_BANDWIDTH");
  if (text == nullptr) return;
  struct {
    const char* name;
    double* value;
  } rows[] = {{"host:", &settings->host_copy_gbps},
              {"pageable:", &settings->pageable_copy_gbps},
              {"device:", &settings->device_copy_gbps},
              {"peer:", &settings->peer_copy_gbps}};
  for (const auto& row : rows) {
    const char* found = std::strstr(text, row.name);
    double value = found ? std::atof(found + std::strlen(row.name)) : 0;
    if (value > 0) *row.value = value;
  }
}

// A misspelt fault would make a test pass that tests nothing.
void check_faults(const std::string& list) {
  static const char* const kNames[] = {
      "cuinit",     "launch",          "subscribe",           "cupti_version",
      "no_records", "zero_timestamps", "reversed_timestamps", "drop_every",
      "late_ms",    "flush_hangs",     "shared_register"};
  for (size_t at = 0; at < list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    std::string name = list.substr(at, std::min(end, list.find('=', at)) - at);
    bool known = false;
    for (const char* entry : kNames) known = known || name == entry;
    if (!known) say(("simgpu: unknown fault in SIMGPU_FAULT: " + name + "\n").c_str());
    at = end + 1;
  }
}

Settings* read_settings() {
  auto* result = new Settings;
  auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::string(value) : std::string();
  };
  result->virtual_clock = text("SIMGPU_CLOCK") == "virtual";
  result->quiet = text("SIMGPU_QUIET") == "1";
  result->move_data = text("SIMGPU_MOVE_DATA") != "0";
  if (int count = std::atoi(text("SIMGPU_DEVICES").c_str()); count > 0) {
    result->devices = count < 16 ? count : 16;
  }
  if (long mib = std::atol(text("SIMGPU_MEMORY_MIB").c_str()); mib > 0) {
    result->memory_bytes = static_cast<uint64_t>(mib) << 20;
  }
  if (int depth = std::atoi(text("SIMGPU_QUEUE_DEPTH").c_str()); depth > 0) {
    result->queue_depth = static_cast<unsigned>(depth);
  }
  result->default_kernel_ns = duration_or("SIMGPU_DEFAULT_KERNEL", result->default_kernel_ns);
  result->launch_latency_ns = duration_or("SIMGPU_LAUNCH_LATENCY", result->launch_latency_ns);
  result->copy_latency_ns = duration_or("SIMGPU_COPY_LATENCY", result->copy_latency_ns);
  read_bandwidth(result);
  result->kernels_file = text("SIMGPU_KERNELS");
  result->timeline_file = text("SIMGPU_TIMELINE");
  result->fault = text("SIMGPU_FAULT");
  check_faults(result->fault);
  return result;
}

}  // namespace

const Settings& settings() {
  static const Settings* value = read_settings();  // leaked: used until the very end of the process
  return *value;
}

int64_t fault(const char* name) {
  const std::string& list = settings().fault;
  size_t length = std::strlen(name);
  for (size_t at = 0; at < list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    if (list.compare(at, length, name) == 0) {
      if (at + length == end) return 1;
      if (list[at + length] == '=') return std::atoll(list.c_str() + at + length + 1);
    }
    at = end + 1;
  }
  return -1;
}

int64_t parse_duration(const char* text) {
  char* unit = nullptr;
  double value = std::strtod(text, &unit);
  if (unit == text || value < 0) return -1;
  struct {
    const char* name;
    double factor;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1}};
  for (const auto& row : units) {
    if (std::strcmp(unit, row.name) == 0) return static_cast<int64_t>(value * row.factor + 0.5);
  }
  return -1;
}

void announce() {
  static bool done = false;  // callers hold the device lock
  if (done || settings().quiet) return;
  done = true;
  say("simulated CUDA device: kernels are not executed, times are simulated\n");
}

extern "C" int simgpu_unimplemented(const char* name, int result) {
  char line[200];
  std::snprintf(line, sizeof line, "simgpu: UNIMPLEMENTED %s\n", name);
  say(line);
  return result;
}

}  // namespace simgpu
