// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/call_table.h"

#include <algorithm>

namespace gpuidle::analysis {

void CallTable::add_blocking(const model::ApiCall& call) {
  Ring& ring = blocking_[call.thread];
  if (ring.calls.size() < kBlockingCalls) {
    ring.calls.push_back(call);
  } else {
    ring.calls[ring.added % kBlockingCalls] = call;
  }
  ++ring.added;
}

void CallTable::add_stream_wait(model::ThreadId thread) {
  if (std::find(waiting_.begin(), waiting_.end(), thread) == waiting_.end()) {
    waiting_.push_back(thread);
  }
}

bool CallTable::take_stream_wait(model::ThreadId thread) {
  const auto found = std::find(waiting_.begin(), waiting_.end(), thread);
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  return true;
}

CallTable::Blocking CallTable::blocking_at(model::ThreadId thread, std::int64_t at_ns) const {
  const auto found = blocking_.find(thread);
  if (found == blocking_.end()) return {};
  const Ring& ring = found->second;
  const auto call = [&](std::uint64_t i) -> const model::ApiCall& {
    return ring.calls[i % kBlockingCalls];
  };
  // A thread's calls follow each other, so only the last one that was entered before can cover. It
  // is mostly among the newest few, so the search for its successor widens from there.
  const std::uint64_t oldest = ring.added - ring.calls.size();
  std::uint64_t low = ring.added, high = ring.added;
  for (std::uint64_t step = 1; low > oldest && call(low - 1).enter_ns >= at_ns; step *= 2) {
    high = low - 1;
    low = high - std::min(step, high - oldest);
  }
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (call(middle).enter_ns < at_ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == oldest) return {nullptr, oldest > 0};
  const model::ApiCall& last = call(low - 1);
  return {last.exit_ns >= at_ns ? &last : nullptr, false};
}

}  // namespace gpuidle::analysis
