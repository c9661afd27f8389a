// SPDX-License-Identifier: Apache-2.0
//
// Which CPython runs in this process, and whether its memory is laid out as python_layouts.h says.
// Asked once by PythonFrames; everything here is looked at before any frame is.
#pragma once

#include <cstdint>
#include <string>

#include "libgpuidle/stacks/python_layouts.h"

namespace gpuidle::stacks {

/// Interfaces of an interpreter that need no GIL.
struct PythonInterpreter {
  const PythonLayout* layout = nullptr;
  std::uintptr_t code_type = 0;  ///< &PyCode_Type
  /// Thread state that holds the GIL on this thread, from 3.12; a read of a thread-local.
  void* (*attached_thread)() = nullptr;
  /// Thread state of this thread, with or without the GIL; pthread_getspecific().
  void* (*this_thread)() = nullptr;
  /// 0 before the interpreter has begun and from when it begins to end: soon after that it frees
  /// the thread states of threads that still run. A read of a global.
  int (*is_initialized)() = nullptr;
  std::uintptr_t eval_begin = 0;  ///< code of the evaluation loop, [begin, end)
  std::uintptr_t eval_end = 0;
};

enum class PythonSupport : std::uint8_t {
  none,  ///< no CPython in this process
  supported,
  refused,  ///< one that is not understood
};

/// Looks for an interpreter by the names it exports, and compares what it says about its structs
/// with the table. `reason` is set if it is refused. Keeps libpython from being unloaded.
/// Context: control.
PythonSupport find_python(PythonInterpreter* python, std::string* reason);

}  // namespace gpuidle::stacks
