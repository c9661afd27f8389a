// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/timeline/clock_map.h"

#include <algorithm>
#include <cstdlib>

namespace gpuidle::timeline {
namespace {

std::int64_t offset_of(const ClockPair& pair) { return pair.host_ns - pair.device_ns; }

}  // namespace

void ClockMap::add(ClockPair pair) {
  if (!pairs_.empty() && std::abs(offset_of(pair) - offset_of(pairs_.back())) > kStep_ns) {
    ++step_count_;
  }
  if (pairs_.size() == kMaxPairs) {
    pairs_.erase(pairs_.begin(), pairs_.begin() + kMaxPairs / 2);
  }
  pairs_.push_back(pair);
}

std::int64_t ClockMap::to_host(std::int64_t device_ns) const {
  // A step may have put device times out of order; the search then still ends at some pair, and
  // records made around a step are off by at most its size.
  const auto after = std::upper_bound(
      pairs_.begin(), pairs_.end(), device_ns,
      [](std::int64_t time_ns, const ClockPair& pair) { return time_ns < pair.device_ns; });
  if (after == pairs_.begin()) return device_ns + offset_of(pairs_.front());
  const ClockPair& left = *(after - 1);
  if (after == pairs_.end()) return device_ns + offset_of(left);
  const ClockPair& right = *after;
  const std::int64_t change_ns = offset_of(right) - offset_of(left);
  const std::int64_t span_ns = right.device_ns - left.device_ns;
  const std::int64_t since_ns = device_ns - left.device_ns;
  if (std::abs(change_ns) > kStep_ns) {
    return device_ns + offset_of(since_ns * 2 < span_ns ? left : right);
  }
  const double share =
      span_ns == 0 ? 0.0 : static_cast<double>(since_ns) / static_cast<double>(span_ns);
  return device_ns + offset_of(left) +
         static_cast<std::int64_t>(share * static_cast<double>(change_ns));
}

void TickMap::add(TickPair pair) {
  if (!pairs_.empty() && pair.ticks <= pairs_.back().ticks) return;
  pairs_.push_back(pair);
  if (pairs_.size() <= kMaxPairs) return;
  std::size_t kept = 1;  // the first pair always stays
  for (std::size_t i = 2; i < pairs_.size(); ++i) {
    const bool is_old = i < kMaxPairs / 2;
    if (!is_old || i % 2 == 0) pairs_[kept++] = pairs_[i];
  }
  pairs_.resize(kept);
}

std::int64_t TickMap::to_host(std::int64_t ticks) const {
  auto after =
      std::upper_bound(pairs_.begin(), pairs_.end(), ticks,
                       [](std::int64_t value, const TickPair& pair) { return value < pair.ticks; });
  if (after == pairs_.begin()) ++after;
  if (after == pairs_.end()) --after;
  const TickPair& right = *after;
  const TickPair& left = *(after - 1);
  const double ns_per_tick = static_cast<double>(right.host_ns - left.host_ns) /
                             static_cast<double>(right.ticks - left.ticks);
  return left.host_ns +
         static_cast<std::int64_t>(static_cast<double>(ticks - left.ticks) * ns_per_tick);
}

}  // namespace gpuidle::timeline
