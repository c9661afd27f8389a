// SPDX-License-Identifier: Apache-2.0
//
// Stacks of many shapes for the native stepper's tests: a seed decides which functions call each
// other on the way down to a visitor.
#pragma once

#include <cstdint>

namespace gpuidle::test {

/// Called at the innermost frame of a stack.
class StackVisitor {
 public:
  virtual ~StackVisitor() = default;
  virtual void visit() = 0;
};

/// Repeatable numbers; the same seed makes the same stack.
class StackSeed {
 public:
  explicit StackSeed(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  unsigned below(unsigned limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<unsigned>(state_ >> 33) % limit;
  }

 private:
  std::uint64_t state_;
};

/// Descends `depth` levels through functions that `seed` picks, calls the visitor and comes back.
/// Shapes: plain recursion, alloca, variable-length arrays, realigned frames, callbacks of qsort,
/// bsearch and dl_iterate_phdr, lambdas, catch blocks, destructors run by an exception, frames that
/// save all preserved registers, signal handlers and small visits on the way.
void descend(StackSeed& seed, int depth, StackVisitor& visitor);

/// As descend(), without signals and exceptions, which take their time: for sampling.
void descend_quickly(StackSeed& seed, int depth, StackVisitor& visitor);

}  // namespace gpuidle::test
