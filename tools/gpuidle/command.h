// SPDX-License-Identifier: Apache-2.0
//
// What the subcommands share: the exit codes, the one line in which an error is told, and the list
// of commands. One file per command, cmd_<name>.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "libgpuidle/base/status.h"

namespace gpuidle::cli {

/// The exit codes of every command but `run`, which exits like the program it ran.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,  ///< missing, unreadable, truncated beyond use, corrupt
  kUsage = 2,
  kIncomplete = 3,    ///< done, but losses or an abrupt end, and --strict was given
  kConditionMet = 4,  ///< a --fail-if condition holds
  kWrongFormat = 5,   ///< not a recording, or of a version that is not known here
  kNoGpuRecords = 6,  ///< a recording, but without any GPU record
  kNoProcess = 7,     ///< attach: it does not exist, has ended or has no recorder
  kNotPermitted = 8,  ///< attach: another user's process, or the kernel forbids it
  kNotNow = 9,        ///< attach: stopped, traced, no CUDA yet, busy; may work later
  kNever = 10,        ///< attach: a program of a kind that cannot be attached to
};

/// Prints "gpuidle: <message>" to stderr and returns the exit code of that class of failure.
int fail(const base::Status& status);
/// Prints "gpuidle: warning: <text>" to stderr; a longer text loses its middle.
void warn(const std::string& text);
/// Writes all of `text` to stdout and flushes it. Errors: io_error, "cannot write [the report ]to
/// standard output" by what is written.
base::Status print(std::string_view text, std::string_view what = "");

/// The same for commands that talk to a process: exit codes 7 to 10.
int fail_attach(const base::Status& status);

/// What FILE may be, in the help of every command that reads one.
inline constexpr const char* kRecordingHelp =
    "A gpuidle trace, a Kineto JSON file (plain or gzip) or an Nsight Systems SQLite export";

/// What --strict means, likewise.
inline constexpr const char* kStrictHelp =
    "Exit with 3 if records are missing or the program ended abruptly";

/// Each adds its subcommand; when chosen, its callback sets `*exit_code`.
void add_run(CLI::App& app, int* exit_code);
void add_report(CLI::App& app, int* exit_code);
void add_gaps(CLI::App& app, int* exit_code);
void add_info(CLI::App& app, int* exit_code);
void add_dump(CLI::App& app, int* exit_code);
void add_attach(CLI::App& app, int* exit_code);
void add_repair(CLI::App& app, int* exit_code);
void add_top(CLI::App& app, int* exit_code);
void add_convert(CLI::App& app, int* exit_code);
void add_export(CLI::App& app, int* exit_code);
void add_diff(CLI::App& app, int* exit_code);
void add_doctor(CLI::App& app, int* exit_code);

}  // namespace gpuidle::cli
