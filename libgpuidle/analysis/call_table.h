// SPDX-License-Identifier: Apache-2.0
//
// Finds the host call of an operation, and the blocking call a thread stood in at a given time,
// while a recording streams by. Fed with calls in order of their enter; feeds the gap analysis.
// Memory is fixed per thread: what is too old is forgotten, and a lookup then says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libgpuidle/model/records.h"

namespace gpuidle::analysis {

/// Context: tool.
class CallTable {
 public:
  /// Calls by correlation that are remembered. A device lags behind its host by at most the
  /// driver's queues (about 1024 launches each), far less than this.
  static constexpr std::size_t kSlots = 1U << 18;
  /// Blocking calls remembered per thread.
  static constexpr std::size_t kBlockingCalls = 4096;

  CallTable() : slots_(kSlots) {}

  void add(const model::ApiCall& call) {
    if (call.correlation != 0) slots_[call.correlation & (kSlots - 1)] = call;
    if (model::may_block(call.role) && call.thread != 0) add_blocking(call);
  }

  /// The call with this correlation; nullptr if there was none or it is forgotten. One call may
  /// have enqueued many operations (graphs), so finding it does not use it up.
  const model::ApiCall* find(std::uint32_t correlation) const {
    const model::ApiCall& call = slots_[correlation & (kSlots - 1)];
    return call.correlation == correlation && correlation != 0 ? &call : nullptr;
  }

  struct Blocking {
    const model::ApiCall* call = nullptr;  ///< valid until the next add()
    bool is_forgotten = false;  ///< the thread's calls of that time are no longer remembered
  };
  /// The blocking call with enter < at_ns <= exit on `thread`, if any.
  Blocking blocking_at(model::ThreadId thread, std::int64_t at_ns) const;

 private:
  struct Ring {
    std::vector<model::ApiCall> calls;  // calls[i % kBlockingCalls], newest is i = added - 1
    std::uint64_t added = 0;
  };
  void add_blocking(const model::ApiCall& call);

  std::vector<model::ApiCall> slots_;  // direct-mapped: a newer correlation takes the slot
  std::unordered_map<model::ThreadId, Ring> blocking_;
};

}  // namespace gpuidle::analysis
