// SPDX-License-Identifier: Apache-2.0
//
// Converts the device side's clock to the host's. CUPTI stamps records with CLOCK_REALTIME by
// default (CLOCK_MONOTONIC_RAW under WSL), host calls are stamped with CLOCK_MONOTONIC: pairs of
// both, taken while the program runs, tie them together. The only place that converts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuidle::timeline {

/// The same moment on both clocks, ns each.
struct ClockPair {
  std::int64_t device_ns = 0;
  std::int64_t host_ns = 0;
};

/// Context: drain.
class ClockMap {
 public:
  /// Pairs kept. Records are converted within seconds of their making; at two pairs a second this
  /// reaches back four minutes.
  static constexpr std::size_t kMaxPairs = 512;
  /// A change of the offset between two pairs beyond this is a step of a clock (NTP, an
  /// administrator), not drift: times are then taken from the nearest pair, not interpolated.
  static constexpr std::int64_t kStep_ns = 1'000'000;

  /// Pairs must come in ascending host time.
  void add(ClockPair pair);

  /// Host time of a device time: interpolated between the pairs around it, beyond them by the
  /// offset of the nearest. Needs at least one pair.
  std::int64_t to_host(std::int64_t device_ns) const;

  bool has_pairs() const { return !pairs_.empty(); }
  std::uint64_t step_count() const { return step_count_; }

 private:
  std::vector<ClockPair> pairs_;
  std::uint64_t step_count_ = 0;
};

/// The same moment as ticks of the processor and as ns of the host's clock.
struct TickPair {
  std::int64_t ticks = 0;
  std::int64_t host_ns = 0;
};

/// Turns ticks of record::host_ticks() into CLOCK_MONOTONIC ns, by straight lines between pairs.
/// Context: drain.
class TickMap {
 public:
  static constexpr std::size_t kMaxPairs = 1024;

  /// Pairs must come in ascending order. When there are too many, every other one of the older half
  /// goes: recent stamps, nearly all, stay exact, and a call that was entered an hour ago is placed
  /// by pairs minutes apart.
  void add(TickPair pair);
  /// Needs at least two pairs. Stamps beyond them are placed by the nearest line.
  std::int64_t to_host(std::int64_t ticks) const;
  std::size_t pair_count() const { return pairs_.size(); }

 private:
  std::vector<TickPair> pairs_;
};

}  // namespace gpuidle::timeline
