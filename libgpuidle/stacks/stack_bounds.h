// SPDX-License-Identifier: Apache-2.0
//
// Where the calling thread's stack is, so that a walk reads nothing else. Asked once per thread;
// feeds StackWalker.
#pragma once

#include <cstdint>

namespace gpuidle::stacks {

/// Readable memory, [begin, end).
struct StackBounds {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool contains(std::uintptr_t address) const { return address >= begin && address < end; }
};

/// The stack that the calling thread runs on, out of /proc/self/maps; the main thread's reaches
/// down as far as its limit lets it grow. {0, 0}: /proc cannot be read. Allocates nothing; 50 to
/// 500 us. Context: hook, once per thread; not in a signal handler.
StackBounds find_stack_bounds();

}  // namespace gpuidle::stacks
