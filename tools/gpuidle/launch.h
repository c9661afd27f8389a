// SPDX-License-Identifier: Apache-2.0
//
// Starting a program with the recorder preloaded, and being its launcher while it runs: what `run`
// needs from the operating system. Knows nothing of traces.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "libgpuidle/base/status.h"

namespace gpuidle::cli {

/// NAME=value strings, as a program is given them.
class Environment {
 public:
  static Environment of_this_process();
  void set(const std::string& name, const std::string& value);
  const char* find(const std::string& name) const;  ///< nullptr = not set
  /// Pointers into this object, ended by nullptr; valid until it changes.
  std::vector<char*> pointers();

 private:
  std::vector<std::string> entries_;
};

/// The file that running `name` would execute, looked up in PATH as a shell does. Errors:
/// not_found, permission_denied.
base::Result<std::string> find_program(const std::string& name, const Environment& environment);

/// Whether and why the dynamic loader would not put a preloaded library into a program.
struct PreloadCheck {
  std::string obstacle;         ///< one line; "" = none
  bool would_complain = false;  ///< the loader would print an error of its own for each process
};
/// Looks at the file (for a script at its interpreter); never fails: what cannot be read is left to
/// exec to complain about.
PreloadCheck check_preload(const std::string& path);

/// The recorder: `configured` if not empty, else beside this binary or in its ../lib. Errors:
/// not_found with where it was looked for; invalid_argument for a path that LD_PRELOAD cannot hold.
base::Result<std::string> find_recorder(const std::string& configured);

/// Runs `path` with `arguments` (the first is its own name) and waits. The terminal stays with it:
/// Ctrl-C and Ctrl-\ reach it directly and do not end the launcher; SIGTERM, SIGHUP and what
/// another process sends to the launcher is passed on. Returns the exit code a shell would show:
/// its own, or 128 + the signal that ended it. `pid` receives its process id. Errors: unavailable,
/// if it could not be started.
base::Result<int> run_and_wait(const std::string& path, const std::vector<std::string>& arguments,
                               Environment& environment, pid_t* pid);

}  // namespace gpuidle::cli
