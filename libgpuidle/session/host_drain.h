// SPDX-License-Identifier: Apache-2.0
//
// From rings to records: what hooks pushed becomes model calls and markers, the words of a stack
// become frames of modules and of Python. Fed by record/, feeds session.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/record/host_call_recorder.h"
#include "libgpuidle/stacks/module_map.h"
#include "libgpuidle/timeline/clock_map.h"

namespace gpuidle::session {

/// Context: drain.
class HostDrain {
 public:
  HostDrain(record::HostCallRecorder& recorder, model::Tables& tables);

  /// Ties the hooks' clock to CLOCK_MONOTONIC at this moment. Twice before the first drain().
  void sample_clock();

  /// Moves everything that is in the rings to `slice`. Returns the number of records moved.
  std::size_t drain(model::Slice& slice);

  /// Moves the samples that wait in the sampler's ring to `slice`.
  std::size_t drain_samples(record::ThreadRing& ring, model::Slice& slice);

  /// Drops and failures since this object was made, as totals.
  void count_losses(model::Losses& losses);

  std::uint64_t enqueued() const { return enqueued_; }  ///< calls that put work on a device
  std::uint64_t launches() const { return launches_; }  ///< of these, kernel and graph launches

 private:
  // What the reader knows of one thread's ring.
  struct Known {
    std::uint32_t tid = 0;
    model::ThreadId thread = 0;
    std::array<model::StackId, record::kStackCacheSize> stacks{};
  };

  model::Losses total_losses();
  std::size_t drain_thread(record::ThreadState& state, Known& known, model::Slice& slice);
  void add_call(const record::Slot& slot, const Known& known, model::Slice& slice);
  model::StackId stack_of(const char* words, std::size_t word_count);
  void add_sample(const record::Slot* slots, model::Slice& slice);
  model::FrameId frame_of(std::uint64_t word);
  model::ApiId api_of(std::uint16_t row);

  record::HostCallRecorder& recorder_;
  model::Tables& tables_;
  stacks::ModuleMap modules_;
  timeline::TickMap clock_;
  std::array<Known, record::kMaxThreads> known_{};
  std::vector<record::Slot> slots_;
  std::vector<model::FrameId> frames_;
  std::vector<model::ApiId> api_of_row_;
  model::Losses losses_before_;  // of earlier recordings of this process
  std::uint64_t enqueued_ = 0;
  std::uint64_t launches_ = 0;
};

}  // namespace gpuidle::session
