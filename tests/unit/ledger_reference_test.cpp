// SPDX-License-Identifier: Apache-2.0
//
// The streaming analysis against a reference that looks at every moment, every operation and every
// call anew, straight from the definitions: too slow to use, too simple to be wrong.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "libgpuidle/timeline/intervals.h"
#include "tests/unit/random_recording.h"

using namespace gpuidle;
using model::ActivityKind;
using model::ApiCall;
using model::DeviceActivity;
using tests::fill_randomly;
using tests::LedgerRecording;

namespace {

struct ReferenceGap {
  std::int64_t start_ns, end_ns;
  analysis::IdleSplit split;
  analysis::Opener opener;
  std::optional<std::int64_t> saving_bound_ns;
};
struct Reference {
  std::int64_t compute_ns = 0, communication_ns = 0, copy_ns = 0, not_observed_ns = 0;
  analysis::IdleSplit idle;
  std::vector<ReferenceGap> gaps;
};

class ReferenceAnalysis {
 public:
  ReferenceAnalysis(const LedgerRecording& recording, std::uint32_t device)
      : calls_(recording.records.calls), tables_(recording.tables()) {
    for (const DeviceActivity& op : recording.records.activities) {
      if (op.device == device) ops_.push_back(op);
    }
    for (const auto& span : recording.records.unobserved) {
      unobserved_.push_back({span.start_ns, span.end_ns});
    }
    timeline::normalize(&unobserved_);
  }

  Reference run() const {
    Reference found;
    std::int64_t first_ns = ops_.front().start_ns, last_ns = first_ns;
    for (const DeviceActivity& op : ops_) {
      first_ns = std::min(first_ns, op.start_ns);
      last_ns = std::max(last_ns, op.end_ns);
    }
    for (std::int64_t t = first_ns; t < last_ns; ++t) count_moment(t, &found);
    // Busy runs, zero-length operations included, then what lies between them.
    timeline::IntervalSet idle = timeline::gaps(busy(), {first_ns, last_ns});
    std::vector<timeline::Interval> cut;
    for (const timeline::Interval& gap : idle) {
      std::vector<std::int64_t> edges = {gap.start_ns, gap.end_ns};
      for (const DeviceActivity& op : ops_) {
        if (op.start_ns > gap.start_ns && op.start_ns < gap.end_ns) edges.push_back(op.start_ns);
      }
      std::sort(edges.begin(), edges.end());
      edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
      for (std::size_t i = 1; i < edges.size(); ++i) cut.push_back({edges[i - 1], edges[i]});
    }
    for (const timeline::Interval& gap : cut) {
      for (const timeline::Interval& piece : timeline::gaps(unobserved_, gap)) {
        found.gaps.push_back(
            judge(piece, piece.start_ns == gap.start_ns, piece.end_ns == gap.end_ns, first_ns));
        found.idle.add(found.gaps.back().split);
      }
    }
    return found;
  }

 private:
  timeline::IntervalSet busy() const {
    timeline::IntervalSet set;
    for (const DeviceActivity& op : ops_) set.push_back({op.start_ns, op.end_ns});
    timeline::normalize(&set);
    return set;
  }
  bool is_communication(const DeviceActivity& op) const {
    return op.kind == ActivityKind::kernel &&
           tables_.string(tables_.kernels()[op.kernel].name).find("nccl") != std::string::npos;
  }
  void count_moment(std::int64_t t, Reference* found) const {
    if (timeline::overlap_ns(unobserved_, {t, t + 1}) > 0) {
      ++found->not_observed_ns;
      return;
    }
    bool has_compute = false, has_communication = false, has_copy = false;
    for (const DeviceActivity& op : ops_) {
      if (op.start_ns > t || op.end_ns <= t) continue;
      const bool is_copy = op.kind == ActivityKind::memcpy || op.kind == ActivityKind::memset;
      (is_copy ? has_copy : is_communication(op) ? has_communication : has_compute) = true;
    }
    if (has_compute) {
      ++found->compute_ns;
    } else if (has_communication) {
      ++found->communication_ns;
    } else if (has_copy) {
      ++found->copy_ns;
    }
  }
  const ApiCall* call_of(const DeviceActivity& op) const {
    for (const ApiCall& call : calls_) {
      if (call.correlation == op.correlation && op.correlation != 0) return &call;
    }
    return nullptr;
  }
  ReferenceGap judge(const timeline::Interval& gap, bool is_opened, bool is_closed,
                     std::int64_t first_ns) const {
    ReferenceGap judged{gap.start_ns, gap.end_ns, {}, analysis::Opener::unknown, {}};
    const ApiCall *closing = nullptr, *earliest = nullptr;
    for (const DeviceActivity& op : ops_) {
      const ApiCall* call = call_of(op);
      if (op.start_ns < gap.end_ns || call == nullptr) continue;
      const auto before = [](const ApiCall* a, const ApiCall* b) {
        return b == nullptr || a->enter_ns < b->enter_ns ||
               (a->enter_ns == b->enter_ns && a->correlation < b->correlation);
      };
      if (is_closed && op.start_ns == gap.end_ns && before(call, closing)) closing = call;
      if (earliest == nullptr || call->enter_ns < earliest->enter_ns ||
          (call->enter_ns == earliest->enter_ns && call->exit_ns > earliest->exit_ns)) {
        earliest = call;
      }
    }
    if (closing == nullptr) {
      judged.split.unknown_ns = gap.length_ns();
      return judged;
    }
    const std::int64_t queued = std::clamp(earliest->enter_ns, gap.start_ns, gap.end_ns);
    const std::int64_t done = std::clamp(earliest->exit_ns, queued, gap.end_ns);
    judged.split = {queued - gap.start_ns, done - queued, gap.end_ns - done, 0};
    if (is_opened) name_opener(*closing, first_ns, &judged);
    return judged;
  }
  void name_opener(const ApiCall& closing, std::int64_t first_ns, ReferenceGap* gap) const {
    gap->opener = analysis::Opener::ran_dry;
    for (const ApiCall& call : calls_) {
      if (call.thread != closing.thread || !model::may_block(call.role)) continue;
      if (call.enter_ns >= gap->start_ns || call.exit_ns < gap->start_ns) continue;
      if (call.exit_ns >= gap->end_ns + 5000) continue;
      gap->opener = analysis::Opener::blocked_in;
      const timeline::Interval waited{std::max(call.enter_ns, first_ns), gap->start_ns};
      // What was not observed may have been busy: the bound is an upper one.
      const std::int64_t may_be_busy =
          timeline::length_ns(timeline::intersect(timeline::unite(busy(), unobserved_), {waited}));
      gap->saving_bound_ns = std::min(gap->end_ns - gap->start_ns, may_be_busy);
    }
  }

  std::vector<DeviceActivity> ops_;
  std::vector<ApiCall> calls_;
  timeline::IntervalSet unobserved_;
  const model::Tables& tables_;
};

}  // namespace

TEST_CASE("ledger, splits, openers and bounds equal the definitions on random recordings",
          "[analysis][unit]") {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    LedgerRecording recording;
    fill_randomly(&recording, &random);
    const analysis::Idleness found = recording.analyze(10'000);
    std::size_t gap_count = 0;
    for (const analysis::DeviceIdleness& device : found.devices) {
      const Reference expected = ReferenceAnalysis(recording, device.device).run();
      INFO("round " << round << ", device " << device.device);
      const analysis::Ledger& ledger = device.ledger;
      REQUIRE(ledger.sum_ns() == ledger.wall_ns());
      REQUIRE(ledger.compute_ns == expected.compute_ns);
      REQUIRE(ledger.exposed_communication_ns == expected.communication_ns);
      REQUIRE(ledger.exposed_copy_ns == expected.copy_ns);
      REQUIRE(ledger.not_observed_ns == expected.not_observed_ns);
      REQUIRE(ledger.idle.host_ns == expected.idle.host_ns);
      REQUIRE(ledger.idle.call_ns == expected.idle.call_ns);
      REQUIRE(ledger.idle.device_ns == expected.idle.device_ns);
      REQUIRE(ledger.idle.unknown_ns == expected.idle.unknown_ns);
      std::map<std::int64_t, ReferenceGap> by_start;
      for (const ReferenceGap& gap : expected.gaps) by_start.emplace(gap.start_ns, gap);
      REQUIRE(device.gap_count() == by_start.size());
      for (const analysis::Gap& gap : found.largest) {
        if (gap.device != device.device) continue;
        ++gap_count;
        INFO("gap at " << gap.start_ns);
        REQUIRE(by_start.count(gap.start_ns) == 1);
        const ReferenceGap& reference = by_start.at(gap.start_ns);
        REQUIRE(gap.end_ns == reference.end_ns);
        REQUIRE(gap.split.host_ns == reference.split.host_ns);
        REQUIRE(gap.split.call_ns == reference.split.call_ns);
        REQUIRE(gap.opener == reference.opener);
        REQUIRE(gap.saving_bound_ns == reference.saving_bound_ns);
      }
    }
    REQUIRE(gap_count == found.largest.size());
  }
}

TEST_CASE("groups and gaps by length add up to the idle time", "[analysis][unit]") {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    LedgerRecording recording;
    fill_randomly(&recording, &random);
    const analysis::Idleness found = recording.analyze();
    std::int64_t grouped_ns = 0, classed_ns = 0;
    for (const analysis::GapGroup& group : found.groups) {
      grouped_ns += group.total_ns;
      REQUIRE(group.split.total_ns() == group.total_ns);
    }
    for (const analysis::DeviceIdleness& device : found.devices) {
      for (const analysis::SizeClass& size_class : device.gaps) classed_ns += size_class.total_ns;
    }
    REQUIRE(grouped_ns == found.idle_ns());
    REQUIRE(classed_ns == found.idle_ns());
  }
}
