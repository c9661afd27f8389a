// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's Python frames, read from its own thread state without the GIL and without
// Python's C interface: a thread's frames are changed by that thread alone, and inside a CUDA call
// they stand still. Fed by the session (prepare) and by hooks (capture); names are read by the
// drain thread from code_table().
#pragma once

#include <cstdint>

#include "libgpuidle/stacks/native_frame.h"
#include "libgpuidle/stacks/peek_memory.h"
#include "libgpuidle/stacks/python_code_table.h"
#include "libgpuidle/stacks/stack_merge.h"
#include "libgpuidle/stacks/thread_walkers.h"

namespace gpuidle::stacks {

/// What did not go as it should, as totals.
struct PythonCounts {
  std::uint64_t stacks = 0;            ///< stacks with Python frames
  std::uint64_t broken = 0;            ///< of these, Python frames ended before the outermost
  std::uint64_t misplaced_frames = 0;  ///< frames without a native frame: they stand at the end
  std::uint64_t unnamed_frames = 0;    ///< frames whose code object found no room in the table
};

/// Room for one capture of Python frames that reads through the kernel. Zero pages are a valid one.
struct PeekedPython {
  PeekWindows windows;
  PeekedCode code;
  PythonFrame frames[128];
};

class PythonFrames {
 public:
  static constexpr int kMaxFrames = 128;  ///< innermost ones, of each stack

  /// Looks for an interpreter and checks its layout; if this thread runs Python, also its frames.
  /// Context: control, once, before any capture().
  static void prepare();

  /// "" = on, or no Python in this process; else one line that says why there are no Python
  /// frames. It may change once, when the first thread that runs Python is looked at.
  /// Context: any.
  static const char* off_reason();

  /// Merges this thread's Python frames into its `native` ones (innermost first) and returns the
  /// number of words written, at most `max_words`; `*is_cut` is set if that was no room for all.
  /// Without Python the words are the return addresses. Context: hook.
  static int capture(const NativeFrame* native, int native_count, std::uint64_t* words,
                     int max_words, bool* is_cut);

  /// As capture(), on a thread that was interrupted anywhere: nothing is read but through the
  /// kernel, 1 to 5 us per frame. Calls
  /// that were half made are left out. Context: signal handler.
  static int capture_interrupted(const NativeFrame* native, int native_count, std::uint64_t* words,
                                 int max_words, PeekedPython* room, bool* is_cut);

  /// The same for another thread that stands still; what comes out is only good if it still does
  /// afterwards. Context: sampler.
  static int capture_other(const KnownThread& thread, const NativeFrame* native, int native_count,
                           std::uint64_t* words, int max_words, PeekedPython* room, bool* is_cut);

  /// Code of the evaluation loop, {0, 0} without Python. Context: any.
  static EvaluationLoop evaluation_loop();

  /// Context: drain.
  static const PythonCodeTable& code_table();
  static PythonCounts counts();
};

}  // namespace gpuidle::stacks
