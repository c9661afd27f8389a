// SPDX-License-Identifier: Apache-2.0
//
// Looks at the threads that feed a device while they are away from CUDA: what runs, or what is
// waited for, and where. One thread of its own; a thread that sleeps is read from outside, one that
// runs gets a signal. Fed by the recorder's thread states, feeds a ring that the drain thread
// empties.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "libgpuidle/record/host_call_recorder.h"
#include "libgpuidle/record/sample_record.h"
#include "libgpuidle/stacks/child_processes.h"
#include "libgpuidle/stacks/other_stack.h"
#include "libgpuidle/stacks/signal_capture.h"
#include "libgpuidle/stacks/thread_look.h"
#include "libgpuidle/stacks/throttling.h"
#include "libgpuidle/stacks/wait_target.h"

namespace gpuidle::stacks {

struct SamplerOptions {
  std::uint32_t rate_hz = 100;  ///< looks at a thread that has just gone away; > 0
  int stack_depth = 64;
};

/// Samples that are not as they should be, as totals.
struct SamplerLosses {
  std::uint64_t dropped = 0;     ///< no room in the ring
  std::uint64_t moved = 0;       ///< without stack: the thread went on meanwhile
  std::uint64_t unanswered = 0;  ///< without stack: no answer to the signal in time
};

/// Never destroyed once started: its thread may be stuck in the kernel when the program ends.
class StallSampler {
 public:
  /// The sampler of the process. Context: control, drain.
  static StallSampler& instance();

  /// Starts the thread. False: no memory, or the system refused a thread. After
  /// CallStack::prepare(), before each recording. Context: control.
  bool start(const SamplerOptions& options, record::HostCallRecorder& recorder);
  bool is_started() const { return is_started_; }
  /// Ends it and waits for that, `timeout_ns` at most. Context: drain.
  void stop(std::int64_t timeout_ns);

  /// Context: drain, its only reader.
  record::ThreadRing& ring() { return ring_; }
  SamplerLosses losses() const;  ///< since start()
  /// "" or why some threads are looked at without their stacks; said once it is known.
  const char* restriction() const { return restriction_.load(std::memory_order_acquire); }

 private:
  // What is known of a thread or process from the look before.
  struct Watch {
    std::uint32_t tid = 0;
    std::int64_t absence_ticks = 0;  // when the absence that was looked at began; 0 = none
    std::int64_t last_ticks = 0;     // until when it is told
    std::int64_t next_ticks = 0;     // not to be looked at before
    bool has_counts = false;         // those below are of this absence
    ProcessorUse use;
    std::uint64_t major_faults = 0;
    std::uint64_t throttled_ns = 0;
    std::uint32_t unanswered = 0;  // signals in a row
    std::int64_t asked_ticks = 0;  // absence for which is_signal_blocked was looked up
    bool is_signal_blocked = false;
  };
  struct ChildWatch {
    int pid = 0;
    Watch watch;
  };

  bool start_again();
  SamplerLosses total_losses() const;
  static void run(void* self);
  void loop();
  /// Looks at whoever is due. True: somebody is away.
  bool look_round(std::int64_t now_ticks);
  void look_at_thread(record::ThreadState& state, Watch& watch, std::int64_t now_ticks);
  void take_stack(const ProcFolder& folder, int tid, Watch& watch, ThreadLook* look);
  bool take_standing(const ProcFolder& folder, int tid, ThreadLook* look);
  bool takes_signals(const ProcFolder& folder, Watch& watch);
  void take_running(const ProcFolder& folder, int tid, Watch& watch, ThreadLook* look);
  void look_at_children(std::int64_t now_ticks);
  void add_counts(const ThreadLook& look, std::int64_t look_ticks, Watch& watch);
  std::uint64_t throttled_so_far_ns(std::int64_t now_ticks);
  void push(int pid, int tid, std::int64_t start_ticks, std::int64_t end_ticks);
  std::int64_t jittered(std::int64_t period_ns);
  void restrict(const char* reason);

  bool is_started_ = false;
  SamplerLosses losses_before_;  // in earlier recordings of this process
  SamplerOptions options_;
  record::HostCallRecorder* recorder_ = nullptr;
  record::ThreadRing ring_;
  std::atomic<std::uint32_t> stopping_{0};  // futex
  std::atomic<std::uint32_t> stopped_{0};   // futex
  std::atomic<std::uint64_t> moved_{0};
  std::atomic<std::uint64_t> unanswered_{0};
  std::atomic<const char*> restriction_{""};

  // The sampler's thread alone.
  Watch watches_[record::kMaxThreads];
  std::vector<ChildWatch> children_;
  ChildProcesses child_list_;
  OtherStack other_stack_;
  SignalCapture signal_;
  WaitTargets targets_;
  record::SamplePayload sample_;  // being made
  int words_ = 0;
  std::int64_t floor_ticks_ = 0;  // nothing before is told: recording was stopped
  std::int64_t next_children_ticks_ = 0;
  std::int64_t next_throttling_ticks_ = 0;
  std::uint64_t throttled_ns_ = 0;
  std::uint64_t random_ = 0x9e3779b97f4a7c15ULL;
  Throttling throttling_;
};

}  // namespace gpuidle::stacks
