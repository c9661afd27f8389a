// SPDX-License-Identifier: Apache-2.0
//
// What recorders are doing: `attach --list` and `--status`, as text or as one JSON document.
#pragma once

#include <sys/types.h>

#include "libgpuidle/control/control_block.h"

namespace gpuidle::cli {

/// The state as a word of the JSON documents.
const char* key_of(control::State state);

/// Prints the GPU processes of this user and, for those that cannot be attached to, why; processes
/// that nobody would mean are counted by reason. The exit code.
int list_processes(bool is_json);

/// Prints what the recorder in `pid` is doing. The exit code.
int show_status(pid_t pid, bool is_json);

}  // namespace gpuidle::cli
