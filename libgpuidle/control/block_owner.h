// SPDX-License-Identifier: Apache-2.0
//
// The recorder's side of the control block: makes it, hears requests, answers and publishes. Fed by
// session/, which acts on the requests. With no block (a full /dev/shm, no /proc) everything here
// does nothing: the recording does not need it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/control/control_block.h"

namespace gpuidle::control {

struct Request {
  Command command = Command::none;
  std::uint32_t number = 0;
  std::int64_t duration_ns = 0;  ///< 0 = until stopped
  bool has_lease = false;        ///< ends when the client's beats() stop
  std::string output;            ///< pattern, "" = the setting
};

struct DeviceTotals {
  std::uint32_t device = 0;
  std::int64_t busy_ns = 0;
  std::int64_t idle_ns = 0;
  std::uint64_t gaps = 0;
};

/// What publish() tells; totals of the recording.
struct Counters {
  std::int64_t counted_ns = 0;
  std::uint64_t calls = 0;
  std::uint64_t activities = 0;
  std::uint64_t losses = 0;
  std::uint64_t file_bytes = 0;
  const DeviceTotals* devices = nullptr;
  std::size_t device_count = 0;  ///< those beyond kMaxDevices are left out
};

/// Context: create() and remove() control; wait() and answer() one thread of ours; publish() drain;
/// the rest any thread of ours.
class BlockOwner {
 public:
  /// Makes the block, 0600, its space reserved: a full /dev/shm is an error here and never a signal
  /// later. Errors: unavailable with the reason. Never throws.
  base::Status create(const char* tool_version);
  bool exists() const { return block_.load(std::memory_order_acquire) != nullptr; }

  /// Takes the name away; the page stays mapped for threads that may be using it.
  void remove();
  /// In a forked child: the page is the parent's. Context: atfork child.
  void forget() { block_.store(nullptr, std::memory_order_release); }

  /// Sleeps until a request comes, wake() or `timeout_ns`. What the client wrote has been checked.
  Request wait(std::int64_t timeout_ns);
  /// Makes wait() return.
  void wake();
  void answer(const Request& request, Answer answer, const std::string& text);
  std::uint32_t beats() const;

  void set_state(State state, StartedBy started_by);
  void note_dormant();  ///< set_state(), unless it says so already
  void set_left(std::int64_t left_ns);
  /// A recording has begun, into `trace_path` (absolute).
  void note_recording(const std::string& trace_path, std::int64_t now_ns);
  void add_own_thread(std::uint32_t tid);
  void publish(const Counters& counters);

 private:
  void changed(ControlBlock& block);

  std::atomic<ControlBlock*> block_{nullptr};
  std::uint32_t heard_ = 0;  // number of the last request taken
  std::atomic<std::uint32_t> wakes_{0};
  std::uint32_t seen_wakes_ = 0;
  char name_[64] = "";  // with the slash
};

}  // namespace gpuidle::control
