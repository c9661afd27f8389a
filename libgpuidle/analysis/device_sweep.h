// SPDX-License-Identifier: Apache-2.0
//
// Adds up where the time of one device goes, in one sweep over its operations in order of their
// start, in constant memory. Fed by the analysis; feeds its ledger with totals and with the idle
// pieces between operations.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {

enum class BusyKind : std::uint8_t { compute = 0, communication = 1, copy = 2 };

/// Idle time between operations, cut where the device was not observed.
struct IdlePiece {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool is_opened_by_work = true;  ///< false: what came before was not observed
  bool is_closed_by_work = true;  ///< false: what comes next was not observed
};

/// Time in which only copies, or only communication (and copies), ran.
struct ExposedPiece {
  BusyKind kind = BusyKind::copy;
  std::uint32_t owner = 0;  ///< as given with the operation of that kind that reached furthest
  std::int64_t length_ns = 0;
};

/// Context: tool.
class DeviceSweep {
 public:
  /// `unobserved` may grow at its end between calls, by spans that start no earlier than what has
  /// been swept. `doubtful` is time that counts as not observed where it would be idle: where
  /// operations ran, they ran. Both must outlive this object.
  DeviceSweep(const timeline::IntervalSet* unobserved, const timeline::IntervalSet* doubtful)
      : unobserved_(unobserved), doubtful_(doubtful) {}

  /// Takes an operation that starts no earlier than the one before. The returned pieces, mostly
  /// none or one, are the idle time that it ended; valid until the next call.
  /// `owner` of copies and communication comes back in exposed().
  const std::vector<IdlePiece>& add(std::int64_t start_ns, std::int64_t end_ns, BusyKind kind,
                                    std::uint32_t owner = 0) {
    pieces_.clear();
    exposed_.clear();
    if (is_empty_) {
      is_empty_ = false;
      first_ns_ = swept_ns_ = start_ns;
      end_ns_ = {start_ns, start_ns, start_ns};
    } else if (start_ns > swept_ns_) {
      sweep_to(start_ns);
    }
    const auto row = static_cast<std::size_t>(kind);
    if (end_ns > end_ns_[row]) {
      end_ns_[row] = end_ns;
      owner_[row] = owner;
    }
    return pieces_;
  }
  /// Sweeps over what the operations so far still cover.
  void finish() {
    exposed_.clear();
    if (!is_empty_) sweep_to(last_ns());
  }
  /// The exposed time that the last add() or finish() swept over.
  const std::vector<ExposedPiece>& exposed() const { return exposed_; }

  bool is_empty() const { return is_empty_; }
  std::int64_t first_ns() const { return first_ns_; }
  /// Start of the last operation: the next one must not start before.
  std::int64_t swept_ns() const { return swept_ns_; }
  std::int64_t last_ns() const { return std::max({end_ns_[0], end_ns_[1], end_ns_[2]}); }
  std::int64_t total_ns(BusyKind kind) const { return total_ns_[static_cast<std::size_t>(kind)]; }
  std::int64_t idle_ns() const { return idle_ns_; }
  std::int64_t not_observed_ns() const { return not_observed_ns_; }

 private:
  void sweep_to(std::int64_t until_ns);
  void count_observed(std::int64_t from_ns, std::int64_t until_ns);

  void add_idle(std::int64_t from_ns, std::int64_t until_ns, bool is_opened_by_work,
                bool is_closed_by_work);

  const timeline::IntervalSet* unobserved_;
  const timeline::IntervalSet* doubtful_;
  bool is_empty_ = true;
  std::int64_t first_ns_ = 0;
  std::int64_t swept_ns_ = 0;
  // Up to when the operations so far cover each kind. Past swept_ns_ nothing else is known to
  // start, so these three numbers are all there is to know about the time until the next start.
  std::array<std::int64_t, 3> end_ns_{};
  std::array<std::int64_t, 3> total_ns_{};
  std::array<std::uint32_t, 3> owner_{};  // of the operation that set end_ns_
  std::int64_t idle_ns_ = 0;
  std::int64_t not_observed_ns_ = 0;
  std::vector<IdlePiece> pieces_;
  std::vector<ExposedPiece> exposed_;
};

}  // namespace gpuidle::analysis
