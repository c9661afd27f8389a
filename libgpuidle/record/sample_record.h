// SPDX-License-Identifier: Apache-2.0
//
// A sample of a stalled thread or a child process as it travels through the sampler's own ring.
// Written by the sampler's thread, read by the drain thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libgpuidle/model/records.h"
#include "libgpuidle/record/host_call_recorder.h"
#include "libgpuidle/record/thread_ring.h"

namespace gpuidle::record {

/// Times are ticks of record::host_ticks(). `head.stack` is the number of words of the stack.
struct SampleRecord {
  RecordHead head;
  std::int64_t start_ticks = 0;
  std::int64_t end_ticks = 0;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
};
static_assert(sizeof(SampleRecord) == sizeof(Slot));

/// What follows it: the facts, then the words of the stack.
struct SampleFacts {
  std::uint64_t cpu_ns = 0;
  std::uint64_t run_queue_wait_ns = 0;
  std::uint64_t throttled_ns = 0;
  std::uint32_t major_faults = 0;
  std::int32_t system_call = -1;
  model::ThreadActivity activity = model::ThreadActivity::unknown;
  model::WaitTarget target = model::WaitTarget::unknown;
  bool is_child_process = false;
  bool has_counts = false;
  char name[20] = "";  ///< of the thread or process, read while it was there
};
struct SamplePayload {
  SampleFacts facts;
  std::uint64_t words[kMaxFrames];
};
static_assert(sizeof(SampleFacts) % sizeof(std::uint64_t) == 0);
static_assert(1 + sizeof(SamplePayload) / sizeof(Slot) < 255);

}  // namespace gpuidle::record
