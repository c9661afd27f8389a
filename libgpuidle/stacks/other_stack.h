// SPDX-License-Identifier: Apache-2.0
//
// The stack of another thread that sleeps in the kernel, read from outside: no signal, nothing that
// the thread could notice. Its stack is copied by the kernel and walked in the copy. Fed by the
// sampler with what /proc says about the thread.
#pragma once

#include <cstdint>

#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/python_frames.h"
#include "libgpuidle/stacks/thread_walkers.h"

namespace gpuidle::stacks {

/// Context: sampler; one user at a time.
class OtherStack {
 public:
  /// Maps 800 KiB, of which what is needed gets touched. False: no memory. Once.
  bool prepare();

  /// Writes the words (stack_word.h) of `thread`, which sleeps at these registers, and returns
  /// their number; 0 = its stack cannot be read. Good only if the thread has stood still until
  /// this returned. `*waits_for_python`: its innermost frames wait for the GIL.
  int capture(const KnownThread& thread, std::uintptr_t stack_pointer, std::uintptr_t instruction,
              std::uint64_t* words, int max_words, bool* is_cut, bool* waits_for_python);

  /// False: the kernel does not let this process read its own memory by system call.
  bool is_permitted() const;

 private:
  struct Room;
  Room* room_ = nullptr;
};

}  // namespace gpuidle::stacks
