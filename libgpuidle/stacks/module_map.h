// SPDX-License-Identifier: Apache-2.0
//
// Which object file an address of this process lies in. Looked at by the drain thread when it turns
// return addresses into frames; refreshed only when objects were loaded or unloaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libgpuidle/model/tables.h"

namespace gpuidle::stacks {

/// An object file as it is mapped.
struct MappedModule {
  std::string path;  ///< "[vdso]" for the kernel's; the program's own from /proc/self/exe
  std::string build_id;
  std::uint64_t load_bias = 0;
  std::uint64_t begin_address = 0;
  std::uint64_t end_address = 0;
  model::ModuleId id = 0;  ///< 0 = not in the tables yet
};

/// Context: drain.
class ModuleMap {
 public:
  /// Takes a new snapshot if the loader's counts of loads and unloads have moved. An address that
  /// was captured in a module that is gone by now has no module: its frame keeps the raw address.
  void refresh();

  /// nullptr: in no loaded object (generated code, an unloaded library).
  MappedModule* find(std::uint64_t address);

  /// The frame of a return address; enters its module into `tables` at first sight.
  model::FrameId frame_of(std::uint64_t address, model::Tables& tables);

  const std::vector<MappedModule>& modules() const { return modules_; }

 private:
  std::vector<MappedModule> modules_;  // by begin_address
  unsigned long long loads_ = 0;
  unsigned long long unloads_ = 0;
};

}  // namespace gpuidle::stacks
