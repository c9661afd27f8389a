// SPDX-License-Identifier: Apache-2.0
//
// One stack out of two: the native frames of a thread and the Python frames that its interpreter
// ran in some of them. Fed by the native walk and by PythonFrames; its words go into the ring.
#pragma once

#include <cstdint>

#include "libgpuidle/stacks/native_frame.h"

namespace gpuidle::stacks {

/// A Python frame, and where on the C stack the interpreter was when it ran it. No initial values:
/// a capture has an array of them on its stack and fills the few that it needs.
struct PythonFrame {
  const char* code;       ///< the code object
  std::uint64_t word;     ///< stack_word.h; 0 = not to be shown
  std::uintptr_t anchor;  ///< address of a variable of the evaluation loop's call that runs this
                          ///< frame; 0 = not known
  std::int32_t position;  ///< of the last instruction, in bytes
  bool is_entry;          ///< outermost frame that this call of the evaluation loop runs
};

/// Code of the evaluation loop, [begin, end): tells its frames where addresses do not.
struct EvaluationLoop {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

struct MergeResult {
  int count = 0;        ///< words written
  int misplaced = 0;    ///< Python frames that stand at the end because their native one is missing
  bool is_cut = false;  ///< there was no room for all
};

/// Writes up to `max_words` words, innermost first. A native frame that
/// holds the anchor of Python frames gives way to them; without an anchor or frame addresses, the
/// next frame of the evaluation loop does. Both inputs are innermost first. Context: hook.
MergeResult merge_stacks(const NativeFrame* native, int native_count, const PythonFrame* python,
                         int python_count, EvaluationLoop loop, std::uint64_t* words,
                         int max_words);

}  // namespace gpuidle::stacks
