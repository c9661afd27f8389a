// SPDX-License-Identifier: Apache-2.0
//
// Pretends to be a CPython: exports its names, and says about itself what a test wants. Linked into
// unit tests; preloaded as it is, it is a free-threaded interpreter.
#pragma once

#include <cstdint>
#include <cstring>

#include "libgpuidle/stacks/python_layouts.h"

extern "C" {
extern char PyType_Type[512];
extern char PyCode_Type[512];
extern char _PyRuntime[1024];  // NOLINT: CPython's name
}

namespace gpuidle::stacks {

template <typename T>
void store(char* address, T value) {
  std::memcpy(address, &value, sizeof(value));
}

/// From here on everything is as in a release build of this version; `version_text` must stay.
void pretend(const char* version_text, const PythonLayout& layout);

/// Changes one of the interpreter's own offsets, by DebugOffsetWords' count.
inline void set_debug_offset(std::size_t index, std::uint64_t value) {
  store(_PyRuntime + 16 + 8 * index, value);
}

/// Moves the second member of code objects, the file name, by `bytes`.
void move_file_name(std::int64_t bytes);

/// What the interpreter says is the thread state of whoever asks. Before the first call it says
/// that it is not initialized.
void set_thread_state(char* thread_state);

}  // namespace gpuidle::stacks
