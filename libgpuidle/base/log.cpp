// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/base/log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace gpuidle::base {
namespace {

constexpr std::size_t kMaxPath = 4096;
std::atomic<LogLevel> g_most_detailed{LogLevel::warning};
std::atomic<bool> g_to_file{false};
char g_file[kMaxPath];  // written once, before g_to_file is set

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return "error";
    case LogLevel::warning:
      return "warning";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      return "debug";
  }
  return "?";
}

// A line that cannot be written is lost: there is no second place to complain to.
bool write_whole(int fd, const char* line, std::size_t length) {
  ssize_t written;
  do {
    written = write(fd, line, length);
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(length);
}

void write_line(const char* line, std::size_t length) {
  if (g_to_file.load(std::memory_order_acquire)) {
    const int fd = open(g_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd >= 0) {
      const bool written = write_whole(fd, line, length);
      close(fd);
      if (written) return;
    }
  }
  write_whole(STDERR_FILENO, line, length);
}

void format_and_write(LogLevel level, const char* format, va_list arguments) {
  const int saved_errno = errno;
  char line[kMaxLogLine];
  const int head =
      std::snprintf(line, sizeof(line), "gpuidle[%d:%ld] %s: ", static_cast<int>(getpid()),
                    syscall(SYS_gettid), name_of(level));
  const std::size_t start = static_cast<std::size_t>(head);
  const std::size_t room = sizeof(line) - start - 1;  // one byte for the newline
  const int wanted = std::vsnprintf(line + start, room, format, arguments);
  std::size_t length = start;
  if (wanted > 0) {
    const bool is_cut = static_cast<std::size_t>(wanted) >= room;
    length += is_cut ? room - 1 : static_cast<std::size_t>(wanted);
    if (is_cut) std::memcpy(line + length - 3, "...", 3);
  }
  for (std::size_t i = start; i < length; ++i) {
    const unsigned char c = static_cast<unsigned char>(line[i]);
    if (c < 0x20 || c == 0x7f) line[i] = '?';
  }
  line[length] = '\n';
  write_line(line, length + 1);
  errno = saved_errno;
}

bool is_wanted(LogLevel level) { return level <= g_most_detailed.load(std::memory_order_relaxed); }

}  // namespace

void configure_log(LogLevel most_detailed, const char* file) {
  g_most_detailed.store(most_detailed, std::memory_order_relaxed);
  g_to_file.store(false, std::memory_order_relaxed);
  if (file == nullptr || file[0] == '\0') return;
  const std::size_t length = std::strlen(file);
  if (length >= kMaxPath) {
    log_line(LogLevel::warning, "GPUIDLE_LOG_FILE is longer than %zu bytes; using standard error",
             kMaxPath - 1);
    return;
  }
  std::memcpy(g_file, file, length + 1);
  g_to_file.store(true, std::memory_order_release);
}

void log_line(LogLevel level, const char* format, ...) {
  if (!is_wanted(level)) return;
  va_list arguments;
  va_start(arguments, format);
  format_and_write(level, format, arguments);
  va_end(arguments);
}

void log_once(LogKind& kind, LogLevel level, const char* format, ...) {
  kind.times.fetch_add(1, std::memory_order_relaxed);
  if (!is_wanted(level)) return;
  const std::int32_t pid = static_cast<std::int32_t>(getpid());
  if (kind.said_by_pid.exchange(pid, std::memory_order_relaxed) == pid) return;
  va_list arguments;
  va_start(arguments, format);
  format_and_write(level, format, arguments);
  va_end(arguments);
}

}  // namespace gpuidle::base
