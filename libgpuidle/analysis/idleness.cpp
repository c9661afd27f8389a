// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/idleness.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "libgpuidle/analysis/communication.h"
#include "libgpuidle/analysis/device_analysis.h"
#include "libgpuidle/analysis/exposed_totals.h"
#include "libgpuidle/analysis/gap_totals.h"
#include "libgpuidle/analysis/host_side.h"
#include "libgpuidle/analysis/lost_work.h"
#include "libgpuidle/analysis/proven_idle.h"
#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {
namespace {

// Streams a recording through the analyses of its devices. Calls are fed to the host's side only as
// far as time has come, so that how a recording is cut into slices never shows in a result.
class Analyzer : public model::SliceVisitor {
 public:
  Analyzer(const model::Recording& recording, const Options& options, const LostWork& lost)
      : info_(recording.info()),
        lost_(lost),
        host_(recording.tables(), options.names),
        totals_(options.largest_gaps, options.gaps),
        proof_totals_(options.largest_gaps, options.gaps),
        proof_(recording.tables(), &unobserved_, &proof_totals_) {
    const model::Tables& tables = recording.tables();
    for (const model::Kernel& kernel : tables.kernels()) {
      is_communication_.push_back(is_communication_kernel(tables.string(kernel.name)));
    }
  }

  void on_slice(const model::Slice& slice) override {
    for (const model::Unobserved& span : slice.unobserved) {
      unobserved_.push_back({span.start_ns, span.end_ns});
    }
    if (!slice.unobserved.empty()) timeline::normalize(&unobserved_);
    calls_ahead_.insert(calls_ahead_.end(), slice.calls.begin(), slice.calls.end());
    markers_ahead_.insert(markers_ahead_.end(), slice.markers.begin(), slice.markers.end());
    overheads_ahead_.insert(overheads_ahead_.end(), slice.overheads.begin(), slice.overheads.end());
    samples_ahead_.insert(samples_ahead_.end(), slice.samples.begin(), slice.samples.end());
    for (const model::DeviceActivity& op : slice.activities) add(op);
    feed_calls_before(slice.end_ns);
    feed_spans_before(slice.end_ns);
    forget_fed();
  }

  Idleness finish() {
    feed_calls_before(std::numeric_limits<std::int64_t>::max());
    Idleness found = counts_;
    found.lost_launch_count = lost_.launch_count;
    for (auto& [ordinal, device] : devices_) found.devices.push_back(device->finish(info_));
    if (found.devices.empty() && info_.source == model::Source::interposition) {
      found.is_proof_only = true;
      if (const auto proven = proof_.finish(info_)) found.devices.push_back(*proven);
    }
    GapTotals& totals = found.is_proof_only ? proof_totals_ : totals_;
    found.exposed = exposed_.take();
    found.first_call_ns = host_.first_call_ns();
    found.warm_up_ns = found.first_call_ns ? host_.warm_up_end_ns() - *found.first_call_ns : 0;
    found.groups = totals.take_groups();
    found.largest = totals.take_largest();
    return found;
  }

 private:
  void add(const model::DeviceActivity& op) {
    feed_calls_before(op.start_ns + model::kCallLead_ns);
    feed_spans_before(op.start_ns);
    ++counts_.activity_count;
    if (op.kind == model::ActivityKind::unknown || op.end_ns < op.start_ns ||
        !device(op.device).add(op, busy_kind_of(op))) {
      ++counts_.ignored_count;
    }
  }

  void feed_calls_before(std::int64_t until_ns) {
    for (; next_call_ < calls_ahead_.size() && calls_ahead_[next_call_].enter_ns < until_ns;
         ++next_call_) {
      const model::ApiCall& call = calls_ahead_[next_call_];
      ++counts_.call_count;
      if (model::enqueues_work(call.role)) ++counts_.enqueue_count;
      host_.add(call);
      if (info_.source == model::Source::interposition) proof_.add(call);
    }
  }

  void feed_spans_before(std::int64_t until_ns) {
    for (; next_marker_ < markers_ahead_.size() && markers_ahead_[next_marker_].start_ns < until_ns;
         ++next_marker_) {
      host_.add(markers_ahead_[next_marker_]);
    }
    for (; next_overhead_ < overheads_ahead_.size() &&
           overheads_ahead_[next_overhead_].start_ns < until_ns;
         ++next_overhead_) {
      host_.add(overheads_ahead_[next_overhead_]);
    }
    for (; next_sample_ < samples_ahead_.size() && samples_ahead_[next_sample_].start_ns < until_ns;
         ++next_sample_) {
      host_.add(samples_ahead_[next_sample_]);
    }
  }

  void forget_fed() {
    const auto forget = [](auto* rows, std::size_t* next) {
      rows->erase(rows->begin(), rows->begin() + static_cast<std::ptrdiff_t>(*next));
      *next = 0;
    };
    forget(&calls_ahead_, &next_call_);
    forget(&markers_ahead_, &next_marker_);
    forget(&overheads_ahead_, &next_overhead_);
    forget(&samples_ahead_, &next_sample_);
  }

  BusyKind busy_kind_of(const model::DeviceActivity& op) const {
    if (op.kind == model::ActivityKind::memcpy || op.kind == model::ActivityKind::memset) {
      return BusyKind::copy;
    }
    return op.kernel < is_communication_.size() && is_communication_[op.kernel]
               ? BusyKind::communication
               : BusyKind::compute;
  }

  DeviceAnalysis& device(std::uint32_t ordinal) {
    if (last_device_ != nullptr && last_ordinal_ == ordinal) return *last_device_;
    std::unique_ptr<DeviceAnalysis>& entry = devices_[ordinal];
    if (!entry) {
      entry = std::make_unique<DeviceAnalysis>(
          ordinal, Shared{&unobserved_, &lost_.spans, &host_, &totals_, &exposed_});
    }
    last_ordinal_ = ordinal;
    last_device_ = entry.get();
    return *entry;
  }

  const model::RecordingInfo& info_;
  const LostWork& lost_;
  timeline::IntervalSet unobserved_;
  HostSide host_;
  ExposedTotals exposed_;
  // Delivered, their time not yet come.
  std::vector<model::ApiCall> calls_ahead_;
  std::vector<model::Marker> markers_ahead_;
  std::vector<model::Overhead> overheads_ahead_;
  std::vector<model::ThreadSample> samples_ahead_;
  std::size_t next_call_ = 0, next_marker_ = 0, next_overhead_ = 0, next_sample_ = 0;
  GapTotals totals_;
  GapTotals proof_totals_;
  ProvenIdle proof_;
  std::map<std::uint32_t, std::unique_ptr<DeviceAnalysis>> devices_;
  DeviceAnalysis* last_device_ = nullptr;
  std::uint32_t last_ordinal_ = 0;
  std::vector<bool> is_communication_;  // by KernelId
  Idleness counts_;                     // only the counts
};

// Several visitors for the price of one pass.
class Together : public model::SliceVisitor {
 public:
  Together(model::SliceVisitor* first, const std::vector<model::SliceVisitor*>& others)
      : first_(first), others_(others) {}
  void on_slice(const model::Slice& slice) override {
    first_->on_slice(slice);
    for (model::SliceVisitor* other : others_) other->on_slice(slice);
  }

 private:
  model::SliceVisitor* first_;
  const std::vector<model::SliceVisitor*>& others_;
};

std::optional<double> ratio_of(std::int64_t part_ns, const Ledger& ledger) {
  const std::int64_t observed_ns = ledger.wall_ns() - ledger.not_observed_ns;
  if (observed_ns <= 0) return std::nullopt;
  return static_cast<double>(part_ns) / static_cast<double>(observed_ns);
}

}  // namespace

std::uint64_t DeviceIdleness::gap_count() const {
  return std::accumulate(gaps.begin(), gaps.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const SizeClass& c) { return sum + c.count; });
}

std::optional<double> DeviceIdleness::kernel_ratio() const {
  return ratio_of(ledger.compute_ns + ledger.exposed_communication_ns, ledger);
}
std::optional<double> DeviceIdleness::any_ratio() const {
  return ratio_of(ledger.any_busy_ns(), ledger);
}
std::optional<double> DeviceIdleness::compute_ratio() const {
  return ratio_of(ledger.compute_ns, ledger);
}

std::int64_t Idleness::idle_ns() const {
  std::int64_t total_ns = 0;
  for (const DeviceIdleness& device : devices) total_ns += device.ledger.idle.total_ns();
  return total_ns;
}

std::int64_t Idleness::wall_ns() const {
  std::int64_t total_ns = 0;
  for (const DeviceIdleness& device : devices) total_ns += device.ledger.wall_ns();
  return total_ns;
}

base::Status analyze(const model::Recording& recording, const Options& options, Idleness* found) {
  LostWork lost;
  base::Status status;
  if (lacks_device_records(recording.info().losses)) status = find_lost_work(recording, &lost);
  Analyzer analyzer(recording, options, lost);
  Together visitors(&analyzer, options.also);
  if (status.ok()) status = recording.visit(visitors);
  *found = analyzer.finish();
  return status;
}

}  // namespace gpuidle::analysis
