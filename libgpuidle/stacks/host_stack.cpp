// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/host_stack.h"

#include <algorithm>

#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/native_frame.h"
#include "libgpuidle/stacks/python_frames.h"

namespace gpuidle::stacks {

int capture_host_stack(std::uint64_t* words, int max_words, bool* is_truncated) {
  NativeFrame native[CallStack::kMaxFrames];
  const int count =
      CallStack::capture_frames(native, std::min(max_words, CallStack::kMaxFrames), is_truncated);
  return PythonFrames::capture(native, count, words, max_words, is_truncated);
}

}  // namespace gpuidle::stacks
