// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's native stack. One interface: StackWalker takes it by the rules of .eh_frame,
// libunwind where a rule is beyond StackWalker.
#pragma once

#include <cstdint>

#include "libgpuidle/stacks/native_frame.h"
#include "libgpuidle/stacks/native_stepper.h"

namespace gpuidle::stacks {

class CallStack {
 public:
  static constexpr int kMaxFrames = 128;  ///< the most that one capture gives

  /// Looks up what walks need and walks one stack. False: no stacks in this process,
  /// unavailable_reason() says why. Context: control, once, before anything else here.
  static bool prepare();

  /// Fills `frames` with return addresses, innermost first, without the frames of this library, and
  /// returns their number; 0 = could not be taken. Allocates nothing; a thread's first call maps
  /// 80 KiB and reads /proc/self/maps. Takes locks only where a rule is left to libunwind.
  /// Context: hook outside of signal handlers.
  static int capture(void** frames, int max_frames);

  /// As capture(), with frame addresses. `*is_truncated`: the stack goes on beyond the frames
  /// given; unfinished() counts why. Context: hook outside of signal handlers.
  static int capture_frames(NativeFrame* frames, int max_frames, bool* is_truncated);

  /// The stack of the code that a signal interrupted on this thread; the first address is that of
  /// the interrupted instruction, frames of this library stay in. 0: no capture has been taken on
  /// this thread yet, so that its stack is not known. No lock, heap or system call.
  /// `signal_context` is the handler's third argument. Context: signal handler.
  static int capture_interrupted(const void* signal_context, NativeFrame* frames, int max_frames,
                                 bool* is_truncated);

  /// Takes note of loaded and unloaded libraries and of ended threads. Between an unload and the
  /// next call here, a library loaded to the same addresses may get frames by the old one's rules.
  /// Takes the loader's lock. Context: drain, in each round.
  static void refresh();

  /// Stacks so far that ended so, total; all but `complete` are truncated ones. Context: any.
  static std::uint64_t unfinished(StackEnd end);

  /// "" if prepare() succeeded. Context: control.
  static const char* unavailable_reason();
};

}  // namespace gpuidle::stacks
