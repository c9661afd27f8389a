// SPDX-License-Identifier: Apache-2.0
//
// Which loaded object has the unwind table of an address. By the C library's lock-free search where
// there is one (glibc 2.35), by an own sorted table otherwise. Feeds StackWalker; refreshed by the
// drain thread.
#pragma once

#include <cstdint>

namespace gpuidle::stacks {

class UnwindTables {
 public:
  /// Looks the C library's search up and takes the first snapshot. Context: control, once, before
  /// any find().
  static void prepare();

  /// Compares the loader's counts of loaded and unloaded objects with those of the last call; after
  /// an unload generation() moves on. Until then rules of the unloaded object may be used for what
  /// was loaded in its place. Takes the loader's lock. Context: drain.
  static void refresh();

  /// .eh_frame_hdr of the object that `pc` lies in; nullptr: in none, or in one without a table.
  /// Lock-free and without system calls. Context: hook, also in a signal handler.
  static const std::uint8_t* find(std::uintptr_t pc);

  /// Number of the state of the address space that rules may be remembered for; never 0.
  static std::uint32_t generation();

  /// Tests: from here on use the own table although the C library has a search.
  static void ignore_c_library();
};

}  // namespace gpuidle::stacks
