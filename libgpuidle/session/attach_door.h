// SPDX-License-Identifier: Apache-2.0
//
// How a running process is reached from outside: keeps the control block and the thread that hears
// its requests, and ends recordings that were asked for when their time is over or their client is
// gone. Fed by `gpuidle attach` through control/, tells session.cpp to begin and to end.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "libgpuidle/control/block_owner.h"

namespace gpuidle::session {

class Session;

/// Context: open() and start_hearing() control, once; the block any thread of ours.
class AttachDoor {
 public:
  explicit AttachDoor(Session& session) : session_(session) {}

  /// Makes the control block. Without one the process records as configured and cannot be
  /// attached to; the reason comes back.
  base::Status open();
  /// Starts the thread that hears requests. False: there is no block, or no thread was to be had.
  bool start_hearing();
  void close();  ///< the process ends

  control::BlockOwner& block() { return block_; }

 private:
  void hear();
  void on_start(const control::Request& request);
  void on_stop(const control::Request& request);
  void check_end();
  std::int64_t sleep_ns() const;

  Session& session_;
  control::BlockOwner block_;
  // Of the recording that a request began; the hearing thread's own.
  bool is_serving_ = false;
  std::int64_t deadline_ns_ = 0;  // 0 = none
  bool has_lease_ = false;
  std::uint32_t last_beats_ = 0;
  std::int64_t last_beat_ns_ = 0;
};

}  // namespace gpuidle::session
