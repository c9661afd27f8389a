// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/session/process_info.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace gpuidle::session {
namespace {

std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// At most 64 KiB: a longer command line is cut, never a reason to grow.
std::string read_file(const char* path) {
  std::string content;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return content;
  std::array<char, 4096> part;
  while (content.size() < 64 * 1024) {
    const ssize_t count = read(fd, part.data(), part.size());
    if (count <= 0) break;
    content.append(part.data(), static_cast<std::size_t>(count));
  }
  close(fd);
  return content;
}

// Field 22 of /proc/self/stat, ticks since boot. The name in field 2 may hold spaces and brackets,
// so fields are counted from the last ')'.
std::optional<std::int64_t> process_start() {
  const std::string stat = read_file("/proc/self/stat");
  std::size_t at = stat.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  for (int field = 3; field <= 22; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return std::nullopt;
  }
  const long long ticks = std::strtoll(stat.c_str() + at, nullptr, 10);
  const long ticks_per_second = sysconf(_SC_CLK_TCK);
  if (ticks <= 0 || ticks_per_second <= 0) return std::nullopt;
  const std::int64_t since_boot_ns = ticks * (1'000'000'000 / ticks_per_second);
  return since_boot_ns - clock_ns(CLOCK_BOOTTIME) + clock_ns(CLOCK_MONOTONIC);
}

}  // namespace

void describe_process(model::RecordingInfo& info) {
  std::array<char, 4096> text{};
  const ssize_t length = readlink("/proc/self/exe", text.data(), text.size() - 1);
  if (length > 0) info.program.assign(text.data(), static_cast<std::size_t>(length));
  const std::string command_line = read_file("/proc/self/cmdline");
  for (std::size_t begin = 0; begin < command_line.size();) {
    std::size_t end = command_line.find('\0', begin);
    if (end == std::string::npos) end = command_line.size();
    info.command.push_back(command_line.substr(begin, end - begin));
    begin = end + 1;
  }
  if (gethostname(text.data(), text.size() - 1) == 0) info.host_name = text.data();
  info.pid = static_cast<std::uint32_t>(getpid());
  info.process_start_ns = process_start();
  info.realtime_offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
}

std::string thread_name(std::uint32_t tid) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/self/task/%u/comm", tid);
  std::string name = read_file(path.data());
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

}  // namespace gpuidle::session
