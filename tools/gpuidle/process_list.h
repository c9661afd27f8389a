// SPDX-License-Identifier: Apache-2.0
//
// What recorders are doing, as text: `attach --list` and `--status`.
#pragma once

#include <sys/types.h>

namespace gpuidle::cli {

/// Prints the GPU processes of this user and, for those that cannot be attached to, why; processes
/// that nobody would mean are counted by reason. The exit code.
int list_processes();

/// Prints what the recorder in `pid` is doing. The exit code.
int show_status(pid_t pid);

}  // namespace gpuidle::cli
