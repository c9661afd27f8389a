// SPDX-License-Identifier: Apache-2.0
//
// The child processes of this one: loader workers, as a rule. Listed by the kernel where it keeps a
// list, else found among all processes. Fed by /proc, feeds the sampler.
#pragma once

#include <vector>

namespace gpuidle::stacks {

/// Context: sampler; one user at a time.
class ChildProcesses {
 public:
  /// At most this many are listed.
  static constexpr std::size_t kMaxChildren = 64;

  /// Process ids of the children that are there now, ended ones that were not waited for included.
  const std::vector<int>& list();

 private:
  bool list_by_kernel();
  void list_by_search();

  std::vector<int> children_;
  std::vector<int> strangers_;  // sorted; others' processes, whose parent is not asked for again
};

}  // namespace gpuidle::stacks
