// SPDX-License-Identifier: Apache-2.0
//
// The switch that every hook looks at first. It lies on a page of its own that the kernel wipes in
// a forked child (MADV_WIPEONFORK), so that a child of any kind of fork, also those that run no
// atfork handler (_Fork, raw clone), finds it closed and never writes into its parent's rings.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpuidle::record {

/// Context: everything but open_gate()/close_gate() may be called from hooks.
class Gate {
 public:
  /// 0 = closed; otherwise the number of the session part (start .. stop) that is being recorded.
  std::uint32_t epoch() const { return word_->load(std::memory_order_relaxed); }

  /// Moves the switch to a page that is wiped on fork. False: the kernel has no such page, the
  /// switch must then stay closed. Context: control.
  bool place_on_wiped_page();
  /// Context: control. `epoch` > 0.
  void open(std::uint32_t epoch) { word_->store(epoch, std::memory_order_release); }
  void close() { word_->store(0, std::memory_order_release); }

 private:
  static std::atomic<std::uint32_t> always_closed_;
  std::atomic<std::uint32_t>* word_ = &always_closed_;
};

/// The one gate of the process. Constant-initialised: hooks may run before any constructor.
extern Gate g_gate;

}  // namespace gpuidle::record
