// SPDX-License-Identifier: Apache-2.0
//
// One level of a native stack, as the native walk gives it to the merge with Python frames.
#pragma once

#include <cstdint>

namespace gpuidle::stacks {

/// No initial values: a capture has an array of them on its stack.
struct NativeFrame {
  void* return_address;  ///< where this frame's function goes on
  /// End of this frame, its canonical frame address: the stack pointer after its function has
  /// returned. 0 = not known.
  std::uintptr_t frame_address;
};

}  // namespace gpuidle::stacks
