// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/gap_totals.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace gpuidle::analysis {
namespace {

std::size_t size_class_of(std::int64_t length_ns) {
  std::size_t size_class = 0;
  while (size_class < kSizeClassLimits_ns.size() && length_ns >= kSizeClassLimits_ns[size_class]) {
    ++size_class;
  }
  return size_class;
}

}  // namespace

bool ranks_before(const Gap& a, const Gap& b) {
  return std::make_tuple(-a.length_ns(), a.start_ns, a.device) <
         std::make_tuple(-b.length_ns(), b.start_ns, b.device);
}

void rank(std::vector<GapGroup>* groups) {
  const auto place = [](const GapGroup& g) {
    return std::make_tuple(-g.total_ns, g.device, g.longest.start_ns, g.opener, g.api, g.stack,
                           g.cause);
  };
  std::sort(groups->begin(), groups->end(),
            [&](const GapGroup& a, const GapGroup& b) { return place(a) < place(b); });
}

void CauseSums::add(const Gap& gap) {
  ++count;
  total_ns += gap.length_ns();
  removable_ns += gap.removable_ns;
  graded_ns[static_cast<std::size_t>(gap.grade)] += gap.length_ns();
  worker_ns[static_cast<std::size_t>(gap.workers)] += gap.length_ns();
}

void CauseSums::add(const CauseSums& other) {
  count += other.count;
  total_ns += other.total_ns;
  removable_ns += other.removable_ns;
  for (std::size_t i = 0; i < graded_ns.size(); ++i) graded_ns[i] += other.graded_ns[i];
  for (std::size_t i = 0; i < worker_ns.size(); ++i) worker_ns[i] += other.worker_ns[i];
}

void GapGroup::absorb(const GapGroup& other) {
  count += other.count;
  total_ns += other.total_ns;
  split.add(other.split);
  if (other.saving_bound_ns) {
    saving_bound_ns = saving_bound_ns.value_or(0) + *other.saving_bound_ns;
  }
  steady.add(other.steady);
  warm_up.add(other.warm_up);
  if (ranks_before(other.longest, longest)) longest = other.longest;
}

void GapTotals::add(const Gap& gap, bool is_warm_up, DeviceIdleness* device) {
  device->ledger.idle.add(gap.split);
  SizeClass& size_class = device->gaps[size_class_of(gap.length_ns())];
  ++size_class.count;
  size_class.total_ns += gap.length_ns();

  GapGroup& group = group_of(gap);
  ++group.count;
  group.total_ns += gap.length_ns();
  group.split.add(gap.split);
  (is_warm_up ? group.warm_up : group.steady).add(gap);
  if (gap.saving_bound_ns) {
    group.saving_bound_ns = group.saving_bound_ns.value_or(0) + *gap.saving_bound_ns;
  }
  if (ranks_before(gap, group.longest)) group.longest = gap;
  keep_if_large(gap);
  if (sink_ != nullptr) sink_->on_gap(gap);
}

GapGroup& GapTotals::group_of(const Gap& gap) {
  const std::optional<CallSite>& origin =
      gap.opener == Opener::blocked_in ? gap.blocking : gap.closing;
  const model::ApiId api = origin ? origin->api : 0;
  const model::StackId stack = gap.inside != 0 ? gap.inside : origin ? origin->stack : 0;
  const Key key{static_cast<std::uint64_t>(api) << 32 | stack,
                static_cast<std::uint64_t>(gap.device) << 16 |
                    static_cast<std::uint64_t>(gap.cause) << 8 |
                    static_cast<std::uint8_t>(gap.opener)};
  Recent& recent = recent_[KeyHash()(key) % recent_.size()];
  if (recent.group != nullptr && recent.key == key) return *recent.group;
  GapGroup& group = groups_[key];
  if (group.count == 0) {
    group.device = gap.device;
    group.opener = gap.opener;
    group.cause = gap.cause;
    group.api = api;
    group.stack = stack;
    group.longest = gap;
  }
  recent = {key, &group};
  return group;
}

void GapTotals::keep_if_large(const Gap& gap) {
  if (largest_limit_ == 0) return;
  if (largest_.size() < largest_limit_) {
    largest_.push_back(gap);
  } else if (ranks_before(gap, largest_.front())) {
    std::pop_heap(largest_.begin(), largest_.end(), ranks_before);
    largest_.back() = gap;
  } else {
    return;
  }
  std::push_heap(largest_.begin(), largest_.end(), ranks_before);
}

std::vector<GapGroup> GapTotals::take_groups() {
  std::vector<GapGroup> groups;
  groups.reserve(groups_.size());
  for (auto& [key, group] : groups_) groups.push_back(std::move(group));
  groups_.clear();
  recent_.fill({});
  rank(&groups);
  return groups;
}

std::vector<Gap> GapTotals::take_largest() {
  std::sort(largest_.begin(), largest_.end(), ranks_before);
  return std::move(largest_);
}

}  // namespace gpuidle::analysis
