// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's native stack, as return addresses. One interface: what walks the stack
// behind it (libunwind's unw_backtrace, opened at run time) can change without anyone noticing.
#pragma once

namespace gpuidle::stacks {

class CallStack {
 public:
  /// Opens the unwinder and walks one stack, so that what it allocates on first use is allocated
  /// here. False: no stacks in this process, unavailable_reason() says why. Context: control, once,
  /// before any capture().
  static bool prepare();

  /// Fills `frames` with return addresses, innermost first, without the frames of this library, and
  /// returns their number; 0 = could not be taken. Allocates nothing of ours; libunwind maps a
  /// cache at a thread's first use. Not from a signal handler: it may take the loader's lock.
  /// Context: hook.
  static int capture(void** frames, int max_frames);

  /// "" if prepare() succeeded. Context: control.
  static const char* unavailable_reason();
};

}  // namespace gpuidle::stacks
