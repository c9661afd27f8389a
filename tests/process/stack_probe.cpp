// SPDX-License-Identifier: Apache-2.0
//
// CallStack as a library of its own, as it is inside libgpuidle.so: what it leaves out of a stack
// are the frames of its library. Used by stack_capture_test.
#include "tests/process/stack_probe.h"

#include "libgpuidle/stacks/call_stack.h"
#include "tests/unit/native_stepper_oracles.h"

using gpuidle::stacks::CallStack;
using gpuidle::stacks::NativeFrame;
using gpuidle::stacks::StackEnd;

int stack_probe_prepare() { return CallStack::prepare() ? 1 : 0; }

int stack_probe_capture(void** addresses, unsigned long* frame_addresses, int max_frames,
                        int* is_truncated) {
  NativeFrame frames[CallStack::kMaxFrames];
  bool is_cut = false;
  const int count = CallStack::capture_frames(frames, max_frames, &is_cut);
  for (int i = 0; i < count; ++i) {
    addresses[i] = frames[i].return_address;
    frame_addresses[i] = frames[i].frame_address;
  }
  *is_truncated = is_cut ? 1 : 0;
  return count;
}

int stack_probe_capture_interrupted(const void* context, void** addresses, int max_frames) {
  NativeFrame frames[CallStack::kMaxFrames];
  bool is_cut = false;
  const int count = CallStack::capture_interrupted(context, frames, max_frames, &is_cut);
  for (int i = 0; i < count; ++i) addresses[i] = frames[i].return_address;
  return count;
}

int stack_probe_agrees() {
  NativeFrame frames[CallStack::kMaxFrames];
  bool is_cut = false;
  const int count = CallStack::capture_frames(frames, CallStack::kMaxFrames, &is_cut);
  gpuidle::test::OracleStack libgcc;
  gpuidle::test::walk_with_libgcc(&libgcc);
  const auto address = [&frames](int i) {
    return reinterpret_cast<std::uintptr_t>(frames[i].return_address);
  };
  int first = 0;  // libgcc sees the frames of this library
  while (first < libgcc.count && libgcc.address(first) != address(0)) ++first;
  if (count == 0 || (is_cut ? count < CallStack::kMaxFrames : count != libgcc.count - first)) {
    return 0;
  }
  for (int i = 0; i < count && first + i < libgcc.count; ++i) {
    if (address(i) != libgcc.address(first + i)) return 0;
  }
  return count;
}

void stack_probe_refresh() { CallStack::refresh(); }

unsigned long stack_probe_stopped_without_table() {
  return CallStack::unfinished(StackEnd::no_table);
}
unsigned long stack_probe_cut() { return CallStack::unfinished(StackEnd::too_deep); }
