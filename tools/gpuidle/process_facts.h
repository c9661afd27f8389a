// SPDX-License-Identifier: Apache-2.0
//
// What /proc tells about a process that somebody wants to attach to, read without stopping or
// touching it. Feeds attach, top and the injector.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "libgpuidle/base/status.h"

namespace gpuidle::cli {

/// One line of /proc/PID/maps.
struct MappedRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  bool is_executable = false;
  bool is_writable = false;
  std::string path;  ///< "" = no file
};

/// What is 0, empty or false was not there or could not be read; `is_readable` says which.
struct ProcessFacts {
  pid_t pid = 0;
  char state = '?';          ///< as in /proc/PID/status: R, S, D, T, t, Z, X
  std::string name;          ///< of the program, cut to 15 characters by the kernel
  uid_t user = 0;            ///< effective
  pid_t tracer = 0;          ///< 0 = none
  int seccomp = 0;           ///< 0 none, 1 strict, 2 filter
  bool is_readable = false;  ///< its maps may be read: the same right that attaching needs
  int open_error = 0;        ///< errno of that, if not
  bool is_64_bit = true;
  bool is_static = false;  ///< has no dynamic loader
  bool has_musl = false;
  bool has_cuda = false;      ///< libcuda.so is mapped
  bool has_recorder = false;  ///< libgpuidle.so is mapped
  std::vector<MappedRange> maps;

  std::string label() const;  ///< "process 17 (python3)"
};

/// Errors: not_found.
base::Result<ProcessFacts> read_process(pid_t pid);

/// All numbers in /proc, ascending.
std::vector<pid_t> all_processes();

}  // namespace gpuidle::cli
