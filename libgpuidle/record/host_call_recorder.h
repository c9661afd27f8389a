// SPDX-License-Identifier: Apache-2.0
//
// What hooks do: note when a host thread entered and left a CUDA call, and with which stack if the
// call closes a gap or may block. Fed by intercept/ or cupti/ (never both at once), drained by
// session.cpp. Nothing here allocates, locks, logs or throws once a thread has its ring.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libgpuidle/model/records.h"
#include "libgpuidle/record/host_clock.h"
#include "libgpuidle/record/thread_ring.h"

namespace gpuidle::record {

inline constexpr int kMaxFrames = 128;  ///< frames kept of a stack, whatever the setting
inline constexpr std::size_t kStackCacheSize = 1024;  ///< distinct stacks a thread remembers
inline constexpr int kMaxThreads = 64;  ///< threads that feed a device at the same time
/// Rings that are still free when on_crowded is called: as many threads may begin while the drain
/// thread wakes up.
inline constexpr int kCrowdedThreads = 24;
inline constexpr std::size_t kMaxMarkerBytes = 120;

struct RecorderOptions {
  std::size_t ring_bytes = 512 * 1024;     ///< per thread; rounded down to a power of two
  int stack_depth = 64;                    ///< frames kept, <= kMaxFrames
  std::int64_t gap_threshold_ns = 20'000;  ///< away from CUDA for longer: take a stack
  std::uint32_t stack_every = 0;           ///< and of one call in so many; 0 = no others
  /// Fills one word per frame, innermost first, and returns their number, 0 = failed;
  /// `*is_truncated`, if the stack goes on. Only the reader of the ring knows what the words mean.
  /// nullptr = no stacks. Context: hook.
  int (*capture_stack)(std::uint64_t* words, int max_words, bool* is_truncated) = nullptr;
  /// Called by a thread that took one of the last free rings: now is the time to reclaim those of
  /// threads that have ended. nullptr = nobody is told. Context: hook.
  void (*on_crowded)() = nullptr;
};

/// One host thread as hooks see it. Lies in the shared pages; only its own thread writes, but for
/// the ring's tail and `state`.
struct ThreadState {
  enum State : std::uint32_t { free = 0, claimed = 1, live = 2 };
  std::atomic<std::uint32_t> state{free};
  std::uint32_t tid = 0;
  std::uint32_t epoch = 0;  ///< gate's epoch in which `depth` was counted
  std::uint32_t depth = 0;  ///< nesting of recorded calls
  std::uint16_t api = 0;    ///< of the outermost call
  std::uint32_t stack = 0;  ///< of the outermost call, as CallRecord's
  std::uint32_t correlation = 0;
  std::int64_t enter_ticks = 0;
  std::int64_t last_exit_ticks = 0;
  std::atomic<std::int64_t> away_since_ticks{0};  ///< left its last call; 0 = inside of one
  std::uint32_t calls_without_stack = 0;
  std::atomic<std::uint64_t> stacks_failed{0};  ///< wanted, not taken
  std::atomic<std::uint64_t> stacks_truncated{0};
  ThreadRing ring;
  std::array<std::uint64_t, kStackCacheSize> stack_hashes{};
  std::array<std::uint64_t, kMaxFrames> words{};  ///< the stack being taken
};

/// Context: prepare() control, before each recording; drain-side functions drain thread; the rest
/// hook.
class HostCallRecorder {
 public:
  /// Reserves the rings; the second time and later, while the gate is closed, takes the options and
  /// forgets what an earlier recording left behind. False with errno set: no address space.
  bool prepare(const RecorderOptions& options);

  /// A recorded call begins on this thread. `api` is its row in model::cuda_apis(). Calls nest;
  /// only the outermost is recorded. Every enter() must be followed by one exit() on the same
  /// thread.
  void enter(std::uint16_t api, model::ApiRole role, std::uint32_t correlation);
  void exit(std::int32_t result);

  /// Notes a mark or a finished range of the program. `name` is cut to kMaxMarkerBytes.
  void mark(model::Marker::Kind kind, const char* name, std::int64_t start_ns, std::int64_t end_ns);

  /// Calls of threads that found no free ring, total.
  std::uint64_t unregistered_calls() const {
    return unregistered_calls_.load(std::memory_order_relaxed);
  }

  /// States of all threads; those whose `state` is live are in use. Context: drain.
  ThreadState* thread(int index) { return threads_ == nullptr ? nullptr : &threads_[index]; }
  /// Gives rings of threads that have ended back, once they are empty. Context: drain.
  void reclaim_dead_threads();
  /// Whether on_crowded was called since the last time. Context: drain.
  bool take_crowded() {
    return is_crowded_.load(std::memory_order_relaxed) &&
           is_crowded_.exchange(false, std::memory_order_relaxed);
  }

  /// In a forked child: forget the rings, they are the parent's. Context: control (atfork child).
  static void forget_in_child();

 private:
  void discard();
  ThreadState* this_thread();
  ThreadState* register_thread();
  void say_crowded();
  void take_stack(ThreadState& thread);
  bool is_stack_due(ThreadState& thread) const;

  RecorderOptions options_;
  std::int64_t gap_threshold_ticks_ = 0;
  ThreadState* threads_ = nullptr;
  Slot* slots_ = nullptr;
  std::size_t slots_per_ring_ = 0;
  std::atomic<std::uint64_t> unregistered_calls_{0};
  std::atomic<bool> is_crowded_{false};
};

/// The one recorder of the process, constant-initialised and never destroyed.
extern HostCallRecorder g_recorder;

}  // namespace gpuidle::record
