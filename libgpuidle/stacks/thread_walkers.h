// SPDX-License-Identifier: Apache-2.0
//
// One StackWalker per thread that takes stacks, from a fixed number of places. Fed by CallStack;
// places of threads that have ended are given back by the drain thread.
#pragma once

#include <pthread.h>

#include "libgpuidle/stacks/native_stepper.h"

namespace gpuidle::stacks {

/// What another thread has to know of a thread to read its stack.
struct KnownThread {
  StackBounds bounds;
  pthread_t self = 0;
  const char* python_state = nullptr;  ///< its last known PyThreadState; it may be gone by now
};

class ThreadWalkers {
 public:
  /// As many as the recorder has rings.
  static constexpr int kMaxThreads = 64;

  /// The calling thread's; at its first use maps one and finds the stack's bounds, in 100 to 500
  /// us. nullptr: no memory, no free place, or no bounds; tried again at the next call. errno is
  /// kept. Context: hook outside of signal handlers.
  static StackWalker* of_this_thread();

  /// As of_this_thread(), but nullptr where there is none yet. Context: hook, also in a signal
  /// handler.
  static StackWalker* existing_of_this_thread();

  /// The calling thread runs Python with this thread state; kept if it has a walker. Context: hook.
  static void note_python_state(const char* state);

  /// False: thread `tid` of this process has no walker. Context: the sampler's thread.
  static bool find(int tid, KnownThread* known);

  /// Gives back the places of this process's threads that have ended. Context: drain.
  static void reclaim();
};

}  // namespace gpuidle::stacks
