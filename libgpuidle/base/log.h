// SPDX-License-Identifier: Apache-2.0
//
// What the recorder says inside a host program: one line per event, one write(2) each, built on the
// stack, so that lines of several threads and processes never mix and no lock of the host's is
// taken. Goes to standard error or to GPUIDLE_LOG_FILE. Hooks never log; they count, and the drain
// thread speaks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuidle::base {

/// error: the recorder is off; warning: the result is less than asked; info: a change that a user
/// may want to know; debug: for us.
enum class LogLevel : std::uint8_t { error, warning, info, debug };

inline constexpr std::size_t kMaxLogLine = 512;  ///< bytes, newline included

/// Sets what is said and where; before that, warnings and errors go to standard error. The file is
/// opened for each line and closed again: a host that closes all its descriptors (a daemon) would
/// otherwise find our text in whatever it opened next. nullptr or "" = standard error. A path that
/// is too long (4095 bytes) or cannot be written also falls back to it.
/// Context: control, once.
void configure_log(LogLevel most_detailed, const char* file);

/// Writes "gpuidle[PID:TID] <level>: <text>" if the level is wanted. Text beyond kMaxLogLine is cut
/// and ends in "...", control characters (a newline in a file name) become '?'. errno is kept.
/// Context: drain | control | tool.
__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format, ...);

/// One kind of event that can happen often. Constant-initialised, so it may be a static anywhere.
struct LogKind {
  std::atomic<std::int32_t> said_by_pid{0};
  std::atomic<std::uint32_t> times{0};  ///< how often it happened, said or not
};

/// As log_line, but says each kind at most once per process (a forked child may say it again).
/// Context: drain | control | tool.
__attribute__((format(printf, 3, 4))) void log_once(LogKind& kind, LogLevel level,
                                                    const char* format, ...);

}  // namespace gpuidle::base
