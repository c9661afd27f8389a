// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/collectives.h"

#include <algorithm>
#include <limits>

#include "libgpuidle/analysis/communication.h"

namespace gpuidle::analysis {

CollectiveMeter::CollectiveMeter(const model::Recording& recording) : recording_(recording) {
  const model::Tables& tables = recording.tables();
  for (const model::Kernel& kernel : tables.kernels()) {
    is_communication_.push_back(is_communication_kernel(tables.string(kernel.name)));
  }
}

void CollectiveMeter::on_slice(const model::Slice& slice) {
  for (const model::DeviceActivity& op : slice.activities) add(op);
}

void CollectiveMeter::close_until(std::int64_t start_ns) {
  const auto is_over = [&](std::size_t index) { return collectives[index].end_ns <= start_ns; };
  for (const std::size_t index : open_) {
    if (!is_over(index)) continue;
    Collective& done = collectives[index];
    done.exposed = timeline::subtract({{done.start_ns, done.end_ns}}, computed_);
  }
  open_.erase(std::remove_if(open_.begin(), open_.end(), is_over), open_.end());
  // What ended before all that is open, and before what may yet begin, is of no use any more.
  std::int64_t needed_ns = start_ns;
  for (const std::size_t index : open_) {
    needed_ns = std::min(needed_ns, collectives[index].start_ns);
  }
  const auto first = std::find_if(computed_.begin(), computed_.end(), [&](const auto& interval) {
    return interval.end_ns > needed_ns;
  });
  computed_.erase(computed_.begin(), first);
}

void CollectiveMeter::add(const model::DeviceActivity& op) {
  const bool is_kernel =
      op.kind == model::ActivityKind::kernel || op.kind == model::ActivityKind::graph;
  if (!is_kernel || op.end_ns <= op.start_ns) return;
  if (!has_device_) {
    has_device_ = true;
    device_ = op.device;
  }
  if (op.device != device_) return;
  close_until(op.start_ns);
  if (op.kernel < is_communication_.size() && is_communication_[op.kernel]) {
    if (collectives.size() == kMaxCollectives) {
      is_cut = true;
      return;
    }
    open_.push_back(collectives.size());
    collectives.push_back(
        {recording_.tables().kernels()[op.kernel].name, op.start_ns, op.end_ns, {}});
  } else if (!computed_.empty() && op.start_ns <= computed_.back().end_ns) {
    computed_.back().end_ns = std::max(computed_.back().end_ns, op.end_ns);
  } else {
    computed_.push_back({op.start_ns, op.end_ns});
  }
}

void CollectiveMeter::on_gap(const Gap& gap) {
  if (gap.length_ns() < kShortestGap_ns) return;
  const std::optional<CallSite>& site =
      gap.opener == Opener::blocked_in ? gap.blocking : gap.closing;
  gaps.push_back({gap.start_ns, gap.end_ns, gap.cause, site ? site->stack : 0});
}

void CollectiveMeter::finish() {
  close_until(std::numeric_limits<std::int64_t>::max());
  std::sort(gaps.begin(), gaps.end(),
            [](const RankGap& a, const RankGap& b) { return a.start_ns < b.start_ns; });
}

}  // namespace gpuidle::analysis
