// SPDX-License-Identifier: Apache-2.0
//
// Runs a program and keeps what it prints: for questions whose answer may crash or hang the one who
// asks, like whether a driver starts. Used by the doctor.
#pragma once

#include <string>
#include <vector>

#include "tools/gpuidle/launch.h"

namespace gpuidle::cli {

struct ChildOutput {
  bool has_started = false;
  bool has_timed_out = false;  ///< it was killed
  int exit_code = 0;           ///< 128 + signal if a signal ended it
  std::string out;             ///< standard output, 64 KiB at most
  std::string err;             ///< standard error, 64 KiB at most
};

/// Runs `path`, an executable file, with standard input empty; after `timeout_ms` it is killed.
/// Context: tool.
ChildOutput run_and_read(const std::string& path, const std::vector<std::string>& arguments,
                         Environment& environment, int timeout_ms);

}  // namespace gpuidle::cli
