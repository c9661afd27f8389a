// SPDX-License-Identifier: Apache-2.0
//
// How long the control group of this process was kept from running because its quota of processor
// time was used up. Read by the sampler; both versions of control groups.
#pragma once

#include <cstdint>
#include <string>

namespace gpuidle::stacks {

/// Context: sampler.
class Throttling {
 public:
  /// Looks for the group's file; where there is none, total_ns() stays 0.
  void find();
  std::uint64_t total_ns() const;

 private:
  std::string file_;       // without the first slash; "" = none
  const char* word_ = "";  // in front of the number
  std::uint64_t unit_ns_ = 1;
};

}  // namespace gpuidle::stacks
