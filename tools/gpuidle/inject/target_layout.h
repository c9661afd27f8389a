// SPDX-License-Identifier: Apache-2.0
//
// Where things are in a process: the functions that the injector has called, and the code in which
// a thread must not be borrowed. Read while the process runs.
#pragma once

#include <cstdint>
#include <vector>

#include "libgpuidle/base/status.h"
#include "tools/gpuidle/inject/target_memory.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {

struct CodeRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool has(std::uint64_t address) const { return address >= begin && address < end; }
};

struct TargetLayout {
  std::uint64_t open_library = 0;      ///< dlopen, or what stands for it in old C libraries
  std::uint64_t open_flags = 0;        ///< to be added to RTLD_NOW
  std::uint64_t find_symbol = 0;       ///< dlsym
  std::uint64_t last_error = 0;        ///< dlerror
  std::uint64_t errno_location = 0;    ///< __errno_location
  std::uint64_t call_instruction = 0;  ///< a `syscall`
  std::uint64_t signal_return = 0;     ///< return address of every signal handler
  std::uint64_t loader_state = 0;      ///< int, 0 while the list of libraries is consistent
  std::vector<CodeRange> loader;       ///< code of the dynamic loader
  /// Code that holds locks which opening a library or starting a thread needs: the loader, every
  /// malloc, and the functions that start threads and processes. Sorted.
  std::vector<CodeRange> forbidden;
};

/// Errors: wrong_format, if there is no GNU C library; unavailable, if it cannot be read.
base::Result<TargetLayout> read_layout(const TargetMemory& memory, const ProcessFacts& process);

}  // namespace gpuidle::cli
