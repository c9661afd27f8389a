// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/host_stack.h"

#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/native_frame.h"
#include "libgpuidle/stacks/python_frames.h"

namespace gpuidle::stacks {

int capture_host_stack(std::uint64_t* words, int max_words) {
  constexpr int kMaxNative = 128;
  void* addresses[kMaxNative];
  const int wanted = max_words < kMaxNative ? max_words : kMaxNative;
  const int count = CallStack::capture(addresses, wanted);
  NativeFrame native[kMaxNative];
  // Without frame addresses the merge finds the evaluation loop's frames by its code.
  for (int i = 0; i < count; ++i) native[i] = {addresses[i], 0};
  return PythonFrames::capture(native, count, words, max_words);
}

}  // namespace gpuidle::stacks
