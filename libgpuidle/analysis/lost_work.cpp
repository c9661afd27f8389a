// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/lost_work.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <unordered_map>
#include <vector>

#include "libgpuidle/analysis/call_table.h"
#include "libgpuidle/analysis/device_wide.h"

namespace gpuidle::analysis {
namespace {

using model::ActivityKind;
using model::ApiRole;

// A set of correlation ids: they are counted up, so whole runs of bits are used.
class CorrelationSet {
 public:
  void insert(std::uint32_t id) { pages_[id / kPageBits][id / 64 % kWords] |= bit_of(id); }
  bool has(std::uint32_t id) const {
    const auto page = pages_.find(id / kPageBits);
    return page != pages_.end() && (page->second[id / 64 % kWords] & bit_of(id)) != 0;
  }

 private:
  static constexpr std::uint32_t kPageBits = 1024, kWords = kPageBits / 64;
  static std::uint64_t bit_of(std::uint32_t id) { return std::uint64_t{1} << (id % 64); }
  std::unordered_map<std::uint32_t, std::array<std::uint64_t, kWords>> pages_;
};

class RecordedIds : public model::SliceVisitor {
 public:
  CorrelationSet ids;
  void on_slice(const model::Slice& slice) override {
    for (const model::DeviceActivity& op : slice.activities) {
      if (op.correlation != 0) ids.insert(op.correlation);
    }
  }
};

bool runs_kernels(ApiRole role) { return role == ApiRole::launch || role == ApiRole::graph_launch; }

// Copies and sets; not what is known to have ended when the call returned.
bool transfers(ApiRole role) {
  return role == ApiRole::copy || role == ApiRole::set || role == ApiRole::set_blocking;
}

class SpanFinder : public model::SliceVisitor {
 public:
  SpanFinder(const model::Tables& tables, const CorrelationSet& recorded, LostWork* lost)
      : is_device_wide_(device_wide_synchronisations(tables)), recorded_(recorded), lost_(*lost) {}

  void on_slice(const model::Slice& slice) override {
    for (const model::ApiCall& call : slice.calls) add(call);
    for (const model::DeviceActivity& op : slice.activities) add(op);
  }

  void finish() {
    constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
    drain_before(kEnd);
    settle_all(kEnd, kEnd);
    timeline::normalize(&lost_.spans);
  }

 private:
  static constexpr std::int64_t kAnyTime = std::numeric_limits<std::int64_t>::min();
  // Calls without a record that followed each other with no recorded one between them.
  struct LostRun {
    std::int64_t first_enter_ns, last_enter_ns;
  };
  struct Queue {
    std::deque<LostRun> runs;
    bool is_run_open = false;  // nothing recorded was queued since
  };
  struct Feeder {
    Queue kernels, transfers;
    std::int64_t kernels_until_ns = kAnyTime;
  };
  struct Drain {
    std::int64_t enter_ns, exit_ns;
  };

  void add(const model::ApiCall& call) {
    calls_.add(call);
    if (call.result != 0) return;
    if (call.role == ApiRole::sync_blocking && call.api < is_device_wide_.size() &&
        is_device_wide_[call.api]) {
      drains_.push_back({call.enter_ns, call.exit_ns});
    }
    if (call.correlation == 0) return;
    const bool is_recorded = recorded_.has(call.correlation);
    if (runs_kernels(call.role)) {
      if (!is_recorded) ++lost_.launch_count;
      add(call, is_recorded, &feeders_[call.thread].kernels);
    } else if (transfers(call.role)) {
      add(call, is_recorded, &feeders_[call.thread].transfers);
    } else if (call.role == ApiRole::copy_blocking && !is_recorded) {
      add_span(call.enter_ns, call.exit_ns);
    }
  }

  static void add(const model::ApiCall& call, bool is_recorded, Queue* queue) {
    if (!is_recorded && queue->is_run_open) {
      queue->runs.back().last_enter_ns = call.enter_ns;
    } else if (!is_recorded) {
      queue->runs.push_back({call.enter_ns, call.enter_ns});
    }
    queue->is_run_open = !is_recorded;
  }

  // A transfer may overtake a kernel in another stream: it settles nothing but transfers.
  void add(const model::DeviceActivity& op) {
    drain_before(op.start_ns);
    const model::ApiCall* call = calls_.find(op.correlation);
    if (call == nullptr) return;
    Feeder& feeder = feeders_[call->thread];
    settle(&feeder.transfers, call->enter_ns, op.start_ns, kAnyTime);
    if (op.kind != ActivityKind::kernel && op.kind != ActivityKind::graph) return;
    settle(&feeder.kernels, call->enter_ns, op.start_ns, feeder.kernels_until_ns);
    feeder.kernels_until_ns = std::max(feeder.kernels_until_ns, op.end_ns);
  }

  // What was launched before a synchronisation had ended when it returned.
  void drain_before(std::int64_t until_ns) {
    for (; !drains_.empty() && drains_.front().exit_ns <= until_ns; drains_.pop_front()) {
      const Drain drain = drains_.front();
      settle_all(drain.enter_ns, drain.exit_ns);
    }
  }

  void settle_all(std::int64_t queued_before_ns, std::int64_t over_ns) {
    for (auto& [thread, feeder] : feeders_) {
      settle(&feeder.kernels, queued_before_ns, over_ns, feeder.kernels_until_ns);
      settle(&feeder.transfers, queued_before_ns, over_ns, kAnyTime);
    }
  }

  // What was queued before `queued_before_ns` began no earlier than `after_ns` and was over at
  // `over_ns`.
  void settle(Queue* queue, std::int64_t queued_before_ns, std::int64_t over_ns,
              std::int64_t after_ns) {
    while (!queue->runs.empty() && queue->runs.front().first_enter_ns < queued_before_ns) {
      LostRun& run = queue->runs.front();
      add_span(std::max(run.first_enter_ns, after_ns), over_ns);
      if (run.last_enter_ns >= queued_before_ns) {
        run.first_enter_ns = queued_before_ns;  // the rest was queued later
        return;
      }
      if (queue->runs.size() == 1) queue->is_run_open = false;
      queue->runs.pop_front();
    }
  }

  void add_span(std::int64_t from_ns, std::int64_t until_ns) {
    if (from_ns >= until_ns) return;
    lost_.spans.push_back({from_ns, until_ns});
    if (lost_.spans.size() < next_join_) return;
    timeline::normalize(&lost_.spans);
    next_join_ = 2 * lost_.spans.size() + kJoinAt;
  }

  static constexpr std::size_t kJoinAt = 1U << 16;
  std::vector<bool> is_device_wide_;
  const CorrelationSet& recorded_;
  LostWork& lost_;
  CallTable calls_;
  std::map<model::ThreadId, Feeder> feeders_;
  std::deque<Drain> drains_;  // of calls that have been fed, not yet reached by the operations
  std::size_t next_join_ = kJoinAt;
};

}  // namespace

bool lacks_device_records(const model::Losses& losses) {
  using model::LossReason;
  constexpr LossReason kOfDeviceRecords[] = {LossReason::cupti_dropped, LossReason::zero_timestamp,
                                             LossReason::reversed_timestamp,
                                             LossReason::outside_session};
  return std::any_of(
      std::begin(kOfDeviceRecords), std::end(kOfDeviceRecords),
      [&losses](LossReason reason) { return losses.count[static_cast<std::size_t>(reason)] > 0; });
}

base::Status find_lost_work(const model::Recording& recording, LostWork* lost) {
  RecordedIds recorded;
  base::Status status = recording.visit(recorded);
  SpanFinder finder(recording.tables(), recorded.ids, lost);
  const base::Status second = recording.visit(finder);
  finder.finish();
  return status.ok() ? second : status;
}

}  // namespace gpuidle::analysis
