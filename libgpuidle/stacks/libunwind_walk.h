// SPDX-License-Identifier: Apache-2.0
//
// libunwind's step, for rules that StackWalker does not understand. The only door to libunwind.
#pragma once

#include "libgpuidle/stacks/native_stepper.h"

namespace gpuidle::stacks {

class LibunwindWalk {
 public:
  /// Opens libunwind.so.8 if it is installed. Context: control, once, before any walk().
  static void prepare();

  /// As StackWalker::walk(); 0 frames: libunwind is not there. Takes locks, among them the
  /// loader's: it hangs in a signal handler sooner or later. 300 ns per frame. Context: hook
  /// outside of signal handlers.
  static WalkResult walk(const Registers& start, NativeFrame* frames, int max_frames);
};

}  // namespace gpuidle::stacks
