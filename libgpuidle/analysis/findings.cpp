// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/findings.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "libgpuidle/analysis/job_findings.h"
#include "libgpuidle/analysis/memory_findings.h"
#include "libgpuidle/analysis/transfer_findings.h"

namespace gpuidle::analysis {
namespace {

// Below this, a window is too short to tell warm-up from the rest.
constexpr std::int64_t kWarmUpLeastWindow_ns = 4'000'000'000;

Grade grade_of(const std::array<std::int64_t, 3>& graded_ns) {
  const std::int64_t total_ns = graded_ns[0] + graded_ns[1] + graded_ns[2];
  if (2 * graded_ns[0] >= total_ns) return Grade::a;
  return 2 * (graded_ns[0] + graded_ns[1]) >= total_ns ? Grade::b : Grade::c;
}

// A finding in the making.
class Draft {
 public:
  Finding finding;
  CauseSums sums;

  void add_place(const FindingPlace& place) {
    const auto [found, is_new] =
        position_.emplace(std::make_pair(place.api, place.stack), finding.places.size());
    if (is_new) {
      finding.places.push_back(place);
      return;
    }
    FindingPlace& row = finding.places[found->second];
    row.count += place.count;
    row.total_ns += place.total_ns;
    row.removable_ns += place.removable_ns;
    if (place.longest && (!row.longest || ranks_before(*place.longest, *row.longest))) {
      row.longest = place.longest;
    }
  }

 private:
  std::map<std::pair<model::ApiId, model::StackId>, std::size_t> position_;
};
using Drafts = std::map<Cause, Draft>;

// The split is kept for all gaps of a group together: a part of them has it in proportion.
IdleSplit part_of(const IdleSplit& split, std::int64_t part_ns, std::int64_t whole_ns) {
  if (part_ns == whole_ns) return split;
  const double ratio = static_cast<double>(part_ns) / static_cast<double>(whole_ns);
  const auto scaled = [ratio](std::int64_t ns) {
    return static_cast<std::int64_t>(static_cast<double>(ns) * ratio);
  };
  IdleSplit part{0, scaled(split.call_ns), scaled(split.device_ns), scaled(split.unknown_ns)};
  part.host_ns = part_ns - part.total_ns();
  return part;
}

// Gaps into which nobody looked, or not for long enough, have the cause of those that end at the
// same call and were looked into, where one cause has more than half of all their time: looks are a
// matter of chance. Their grade stays what it is.
class CausesLookedInto {
 public:
  explicit CausesLookedInto(const std::vector<GapGroup>& groups) {
    for (const GapGroup& group : groups) {
      const Gap& gap = group.longest;
      if (!gap.closing) continue;
      Site& site = sites_[{gap.closing->api, gap.closing->stack}];
      if (is_open(group)) site.open_ns += group.total_ns;
      if (gap.inside != 0 && gap.grade != Grade::c) site.seen_ns[group.cause] += group.total_ns;
    }
  }
  Cause of(const GapGroup& group) const {
    if (!is_open(group)) return group.cause;
    const Gap& gap = group.longest;
    const Site& site = sites_.at({gap.closing->api, gap.closing->stack});
    std::int64_t total_ns = site.open_ns;
    for (const auto& [cause, ns] : site.seen_ns) total_ns += ns;
    for (const auto& [cause, ns] : site.seen_ns) {
      if (2 * ns > total_ns) return cause;
    }
    return group.cause;
  }

 private:
  struct Site {
    std::int64_t open_ns = 0;
    std::map<Cause, std::int64_t> seen_ns;
  };
  static bool is_open(const GapGroup& group) {
    return (group.cause == Cause::host_native || group.cause == Cause::host_python) &&
           group.longest.grade == Grade::c && group.longest.closing;
  }
  std::map<std::pair<model::ApiId, model::StackId>, Site> sites_;  // by the call that ends the gaps
};

void add_gaps(const Idleness& idleness, bool leaves_out_warm_up, Findings* found, Drafts* drafts) {
  const CausesLookedInto looked_into(idleness.groups);
  for (const GapGroup& group : idleness.groups) {
    CauseSums sums = group.steady;
    if (leaves_out_warm_up) {
      found->warm_up_idle_ns += group.warm_up.total_ns;
    } else {
      sums.add(group.warm_up);
    }
    if (sums.total_ns == 0) continue;
    Draft& draft = (*drafts)[looked_into.of(group)];
    draft.sums.add(sums);
    draft.finding.split.add(part_of(group.split, sums.total_ns, group.total_ns));
    draft.add_place(
        {group.api, group.stack, sums.count, sums.total_ns, sums.removable_ns, group.longest});
  }
  for (auto& [cause, draft] : *drafts) {
    Finding& finding = draft.finding;
    finding.cause = cause;
    finding.count = draft.sums.count;
    finding.total_ns = draft.sums.total_ns;
    finding.saving_ns = draft.sums.removable_ns;
    finding.grade = grade_of(draft.sums.graded_ns);
    finding.worker_ns = draft.sums.worker_ns;
    for (const DeviceIdleness& device : idleness.devices) {
      finding.episode_count += device.episode_count[static_cast<std::size_t>(cause)];
    }
  }
}

// A checkpoint or an upload can go on in the background while later steps compute, and a copy can
// be hidden behind kernels, no longer than there is computation.
void limit_to_computation(const Idleness& idleness, Drafts* drafts) {
  std::int64_t compute_ns = 0;
  for (const DeviceIdleness& device : idleness.devices) compute_ns += device.ledger.compute_ns;
  for (const Cause cause :
       {Cause::checkpoint_sync, Cause::result_upload, Cause::h2d_blocking, Cause::copy_engine}) {
    const auto draft = drafts->find(cause);
    if (draft == drafts->end()) continue;
    std::optional<std::int64_t>& saving_ns = draft->second.finding.saving_ns;
    saving_ns = std::min(saving_ns.value_or(0), compute_ns);
  }
}

void add_transfers(const Idleness& idleness, Drafts* drafts) {
  for (const TransferCost& cost : transfer_costs(idleness)) {
    Draft& draft = (*drafts)[cost.cause];
    Finding& finding = draft.finding;
    finding.cause = cost.cause;
    const ExposedGroup& group = *cost.group;
    if (!finding.transfers) finding.transfers = TransferFacts{};
    TransferFacts& facts = *finding.transfers;
    facts.count += group.count;
    facts.bytes += group.bytes;
    facts.total_ns += group.total_ns;
    facts.exposed_ns += group.exposed_ns;
    facts.call_ns += group.call_ns;
    facts.is_source_known &= group.source != model::MemoryKind::unknown;
    finding.total_ns += group.exposed_ns;
    finding.saving_ns = finding.saving_ns.value_or(0) + group.exposed_ns;
    draft.sums.graded_ns[static_cast<std::size_t>(cost.grade)] += group.exposed_ns;
    finding.grade = grade_of(draft.sums.graded_ns);
    draft.add_place({group.api, group.stack, group.count, group.exposed_ns, group.exposed_ns, {}});
  }
}

bool is_enough(const Finding& finding, int percent) {
  return finding.total_ns * 100 >= finding.window_ns * percent && finding.total_ns > 0;
}

bool is_told_first(const Finding& a, const Finding& b) {
  // Certain faults of set-up, then of the job, then by what can be saved; what is not understood
  // comes last.
  const auto group = [](const Finding& f) {
    switch (f.cause) {
      case Cause::launch_blocking:
        return 0;
      case Cause::device_unused:
      case Cause::no_gpu_work:
        return 1;
      case Cause::unknown:
      case Cause::mixed:
        return 3;
      default:
        return 2;
    }
  };
  const auto place = [&](const Finding& f) {
    return std::make_tuple(group(f), -f.saving_ns.value_or(0), f.grade, -f.total_ns, f.cause);
  };
  return place(a) < place(b);
}

// Causes whose removal changes what the launches look like: while one of them explains half of the
// idle time, advice on the launches is premature.
bool is_root(Cause cause) {
  switch (cause) {
    case Cause::loader_wait:
    case Cause::inline_preprocess:
    case Cause::remote_read:
    case Cause::external_fetch:
    case Cause::h2d_pageable:
    case Cause::h2d_blocking:
    case Cause::h2d_fragmented:
    case Cause::result_upload:
    case Cause::checkpoint_sync:
    case Cause::comm_exposed:
    case Cause::scalar_read:
    case Cause::explicit_sync:
    case Cause::d2h_copy:
    case Cause::implicit_sync:
      return true;
    default:
      return false;
  }
}

bool shares_a_place(const Finding& a, const Finding& b) {
  return std::any_of(a.places.begin(), a.places.end(), [&](const FindingPlace& p) {
    return p.stack != 0 && std::any_of(b.places.begin(), b.places.end(),
                                       [&](const FindingPlace& q) { return p.stack == q.stack; });
  });
}

void set_aside(std::int64_t idle_ns, Findings* found) {
  std::int64_t rooted_ns = 0;
  const Finding* blocking_copies = nullptr;
  bool is_launch_blocking = false;
  for (const Finding& finding : found->told) {
    if (is_root(finding.cause)) rooted_ns = std::max(rooted_ns, finding.split.total_ns());
    if (finding.cause == Cause::h2d_blocking) blocking_copies = &finding;
    is_launch_blocking |= finding.cause == Cause::launch_blocking;
  }
  const auto is_premature = [&](const Finding& finding) {
    if (finding.cause == Cause::launch_bound) {
      return is_launch_blocking || (idle_ns > 0 && 2 * rooted_ns >= idle_ns);
    }
    return finding.cause == Cause::h2d_pageable && blocking_copies != nullptr &&
           shares_a_place(finding, *blocking_copies);
  };
  std::vector<Finding> kept;
  for (const Finding& finding : found->told) {
    (is_premature(finding) ? found->set_aside : kept).push_back(finding);
  }
  found->told = std::move(kept);
}

std::int64_t device_count_of(const Idleness& idleness) {
  return static_cast<std::int64_t>(idleness.devices.size());
}

// Band, certainty and order of places of a finding that will be told.
void complete(const Idleness& idleness, const Thresholds& thresholds, Finding* finding) {
  std::uint64_t kernels = 0, graphs = 0;
  for (const DeviceIdleness& device : idleness.devices) {
    kernels += device.kernel_count;
    graphs += device.graph_count;
  }
  finding->is_high = is_enough(*finding, row_of(finding->cause).high_percent);
  finding->is_likely = finding->grade == Grade::c || finding->total_ns < thresholds.sure_total_ns ||
                       (kernels < thresholds.sure_kernels && graphs == 0);
  std::sort(finding->places.begin(), finding->places.end(),
            [](const FindingPlace& a, const FindingPlace& b) {
              return std::make_tuple(-a.total_ns, a.api, a.stack) <
                     std::make_tuple(-b.total_ns, b.api, b.stack);
            });
  if (finding->cause == Cause::unknown || finding->cause == Cause::mixed ||
      finding->cause == Cause::profiler_overhead) {
    finding->saving_ns.reset();
  }
}

std::int64_t combined_saving_of(const Idleness& idleness, const std::vector<Finding>& told) {
  std::int64_t lost_ns = 0, sum_ns = 0;
  for (const DeviceIdleness& device : idleness.devices) {
    const Ledger& ledger = device.ledger;
    lost_ns += ledger.idle.total_ns() + ledger.exposed_copy_ns + ledger.exposed_communication_ns;
  }
  for (const Finding& finding : told) {
    if (finding.devices.empty() && finding.cause != Cause::startup &&
        finding.cause != Cause::linger) {
      sum_ns += finding.saving_ns.value_or(0);
    }
  }
  return std::min(lost_ns, sum_ns);
}

}  // namespace

Findings find_causes(const model::Recording& recording, const Idleness& idleness,
                     const Thresholds& thresholds, const std::vector<MemoryUse>& memory) {
  Findings found;
  const std::int64_t window_ns = idleness.wall_ns();
  const std::int64_t span_ns =
      idleness.devices.empty() ? 0 : idleness.devices.front().ledger.wall_ns();
  const bool leaves_out_warm_up =
      span_ns >= kWarmUpLeastWindow_ns && 2 * idleness.warm_up_ns <= span_ns;
  if (leaves_out_warm_up) found.warm_up_ns = idleness.warm_up_ns;

  Drafts drafts;
  add_gaps(idleness, leaves_out_warm_up, &found, &drafts);
  add_transfers(idleness, &drafts);
  limit_to_computation(idleness, &drafts);
  for (auto& [cause, draft] : drafts) {
    draft.finding.window_ns = window_ns - found.warm_up_ns * device_count_of(idleness);
    if (!is_enough(draft.finding, row_of(cause).moderate_percent)) continue;
    complete(idleness, thresholds, &draft.finding);
    found.told.push_back(draft.finding);
  }
  add_job_findings(recording, idleness, thresholds, &found.told);
  std::sort(found.told.begin(), found.told.end(), is_told_first);
  set_aside(idleness.idle_ns(), &found);
  add_memory_findings(idleness, memory, thresholds, &found);
  found.combined_saving_ns = combined_saving_of(idleness, found.told);
  return found;
}

}  // namespace gpuidle::analysis
