// SPDX-License-Identifier: Apache-2.0
//
// Finds the host call of an operation, and the blocking call a thread stood in at a given time,
// while a recording streams by. Fed with calls in order of their enter; feeds the gap analysis.
// Memory is fixed per thread: what is too old is forgotten, and a lookup then says so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libgpuidle/model/records.h"
#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {

/// True if the host stood still in this call, or may have: by its role, or, for copies and sets
/// that by contract return at once, by how long it took (copies from pageable memory are staged).
/// Well above what enqueueing takes, which is 5 to 20 us.
constexpr bool stood_still(const model::ApiCall& call) {
  constexpr std::int64_t kLong_ns = 100'000;
  return model::may_block(call.role) ||
         ((call.role == model::ApiRole::copy || call.role == model::ApiRole::set) &&
          call.exit_ns - call.enter_ns >= kLong_ns);
}

/// Context: tool.
class CallTable {
 public:
  /// Calls by correlation that are remembered. A device lags behind its host by at most the
  /// driver's queues (about 1024 launches each), far less than this.
  static constexpr std::size_t kSlots = 1U << 18;
  /// Blocking calls remembered per thread.
  static constexpr std::size_t kBlockingCalls = 4096;

  CallTable() : is_after_wait_(kSlots), slots_(kSlots) {}

  void add(const model::ApiCall& call) {
    const std::size_t slot = call.correlation & (kSlots - 1);
    if (call.correlation != 0) {
      slots_[slot] = call;
      is_after_wait_[slot] = 0;
    }
    if (call.thread == 0) return;
    if (stood_still(call)) add_blocking(call);
    if (call.role == model::ApiRole::event_wait) {
      add_stream_wait(call.thread);
    } else if (!waiting_.empty() && model::enqueues_work(call.role) &&
               take_stream_wait(call.thread) && call.correlation != 0) {
      is_after_wait_[slot] = 1;
    }
  }

  /// The call with this correlation; nullptr if there was none or it is forgotten. One call may
  /// have enqueued many operations (graphs), so finding it does not use it up.
  const model::ApiCall* find(std::uint32_t correlation) const {
    const model::ApiCall& call = slots_[correlation & (kSlots - 1)];
    return call.correlation == correlation && correlation != 0 ? &call : nullptr;
  }

  /// True if the thread of the call with this correlation made a stream wait for an event right
  /// before it; requires find(correlation) != nullptr.
  bool is_after_stream_wait(std::uint32_t correlation) const {
    return is_after_wait_[correlation & (kSlots - 1)] != 0;
  }

  struct Blocking {
    const model::ApiCall* call = nullptr;  ///< valid until the next add()
    bool is_forgotten = false;  ///< the thread's calls of that time are no longer remembered
  };
  /// The blocking call with enter < at_ns <= exit on `thread`, if any.
  Blocking blocking_at(model::ThreadId thread, std::int64_t at_ns) const;

  /// Calls visit(call, ns) for each call of `thread` that stood still inside `within`, newest
  /// first.
  template <typename Visit>
  void each_blocking_over(model::ThreadId thread, const timeline::Interval& within,
                          Visit visit) const {
    const auto found = blocking_.find(thread);
    if (found == blocking_.end()) return;
    const Ring& ring = found->second;
    const std::uint64_t oldest = ring.added - ring.calls.size();
    for (std::uint64_t i = ring.added; i > oldest; --i) {
      const model::ApiCall& call = ring.calls[(i - 1) % kBlockingCalls];
      if (call.exit_ns <= within.start_ns) return;
      const std::int64_t ns =
          std::min(call.exit_ns, within.end_ns) - std::max(call.enter_ns, within.start_ns);
      if (ns > 0) visit(call, ns);
    }
  }

 private:
  struct Ring {
    std::vector<model::ApiCall> calls;  // calls[i % kBlockingCalls], newest is i = added - 1
    std::uint64_t added = 0;
  };
  void add_blocking(const model::ApiCall& call);
  void add_stream_wait(model::ThreadId thread);
  bool take_stream_wait(model::ThreadId thread);

  std::vector<std::uint8_t> is_after_wait_;  // beside slots_
  std::vector<model::ThreadId> waiting_;     // made a stream wait and enqueued nothing since
  std::vector<model::ApiCall> slots_;        // direct-mapped: a newer correlation takes the slot
  std::unordered_map<model::ThreadId, Ring> blocking_;
};

}  // namespace gpuidle::analysis
