// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/compare.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

namespace gpuidle::analysis {
namespace {

double sum_of(const std::vector<double>& values, std::size_t count) {
  return std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
}

double choose(std::size_t n, std::size_t k) {
  double ways = 1;
  for (std::size_t i = 0; i < k; ++i) {
    ways *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return ways;
}

// Counts how many ways to pick `count` of the values give a sum at least as far from `centre`.
class Extremes {
 public:
  Extremes(double centre, double distance) : centre_(centre), least_(distance * (1 - 1e-12)) {}
  void add(double sum) {
    ++tried_;
    if (std::abs(sum - centre_) >= least_) ++extreme_;
  }
  double share() const { return static_cast<double>(extreme_) / static_cast<double>(tried_); }

 private:
  double centre_, least_;
  std::size_t tried_ = 0, extreme_ = 0;
};

void pick_all(const std::vector<double>& values, std::size_t from, std::size_t left, double sum,
              Extremes* extremes) {
  if (left == 0) {
    extremes->add(sum);
    return;
  }
  for (std::size_t i = from; i + left <= values.size(); ++i) {
    pick_all(values, i + 1, left - 1, sum + values[i], extremes);
  }
}

double mean_of(const std::vector<std::int64_t>& values) {
  double sum = 0;
  for (const std::int64_t value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

Outcome outcome_of(double predicted_ns, double fell_ns) {
  // A tenth of slack: per-step figures of two runs never agree exactly.
  if (fell_ns > predicted_ns * 1.1) return Outcome::exceeded;
  if (fell_ns >= predicted_ns * 0.5) return Outcome::came_true;
  return fell_ns >= predicted_ns * 0.1 ? Outcome::in_part : Outcome::did_not_come;
}

}  // namespace

void StepMeter::on_slice(const model::Slice& slice) {
  for (const model::Marker& marker : slice.markers) {
    if (marker.kind != model::Marker::Kind::step || durations_ns_.size() == kMaxSteps) continue;
    if (marker.end_ns > marker.start_ns) {
      durations_ns_.push_back(marker.end_ns - marker.start_ns);
      continue;
    }
    if (last_moment_ns_ && marker.start_ns > *last_moment_ns_) {
      durations_ns_.push_back(marker.start_ns - *last_moment_ns_);
    }
    last_moment_ns_ = marker.start_ns;
  }
}

std::int64_t RunFigures::idle_ns() const {
  const auto part = [this](LedgerPart p) { return parts_ns[static_cast<std::size_t>(p)]; };
  return part(LedgerPart::nothing_queued) + part(LedgerPart::being_queued) +
         part(LedgerPart::not_started) + part(LedgerPart::split_not_known);
}

RunFigures figures_of(const Idleness& found, const Findings& findings, const StepMeter& steps) {
  RunFigures figures;
  for (const DeviceIdleness& device : found.devices) {
    const Ledger& ledger = device.ledger;
    figures.wall_ns += ledger.wall_ns();
    figures.kernel_count += device.kernel_count;
    const std::array<std::int64_t, kLedgerPartCount> parts_ns = {
        ledger.compute_ns,      ledger.exposed_communication_ns,
        ledger.exposed_copy_ns, ledger.idle.host_ns,
        ledger.idle.call_ns,    ledger.idle.device_ns,
        ledger.idle.unknown_ns, ledger.not_observed_ns};
    for (std::size_t i = 0; i < kLedgerPartCount; ++i) figures.parts_ns[i] += parts_ns[i];
  }
  figures.device_count = found.devices.size();
  for (const GapGroup& group : found.groups) {
    figures.idle_by_cause_ns[static_cast<std::size_t>(group.cause)] += group.total_ns;
  }
  for (const Finding& finding : findings.told) {
    // Causes without gaps (exposed copies, the job's) have no idle time that could fall.
    if (finding.count == 0 || !finding.saving_ns) continue;
    figures.predicted_ns[static_cast<std::size_t>(finding.cause)] = finding.saving_ns;
  }
  figures.steps_ns = steps.durations_ns();
  return figures;
}

StepSpread spread_of(const std::vector<std::int64_t>& steps_ns) {
  StepSpread spread;
  spread.mean_ns = mean_of(steps_ns);
  double squares = 0;
  for (const std::int64_t step_ns : steps_ns) {
    const double distance = static_cast<double>(step_ns) - spread.mean_ns;
    squares += distance * distance;
  }
  if (steps_ns.size() > 1) {
    spread.deviation_ns = std::sqrt(squares / static_cast<double>(steps_ns.size() - 1));
  }
  return spread;
}

std::optional<double> chance_of(const std::vector<std::int64_t>& before,
                                const std::vector<std::int64_t>& after) {
  if (before.size() < kFewestSteps || after.size() < kFewestSteps) return std::nullopt;
  std::vector<double> values;
  for (const auto* side : {&before, &after}) {
    for (const std::int64_t value : *side) values.push_back(static_cast<double>(value));
  }
  // The mean of one side tells that of the other, so the sum of one is all there is to look at.
  const double centre = sum_of(values, values.size()) * static_cast<double>(before.size()) /
                        static_cast<double>(values.size());
  Extremes extremes(centre, std::abs(sum_of(values, before.size()) - centre));
  if (choose(values.size(), before.size()) <= static_cast<double>(kPermutations)) {
    pick_all(values, 0, before.size(), 0, &extremes);
    return extremes.share();
  }
  extremes.add(sum_of(values, before.size()));  // the permutation that was observed
  std::mt19937 random(1);                       // fixed: equal recordings give equal reports
  // Long runs are thinned out evenly: 2,000 steps tell as much as a million.
  const std::size_t rounds = values.size() > 2000 ? kPermutations / 10 : kPermutations;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::size_t other = i + random() % (values.size() - i);
      std::swap(values[i], values[other]);
    }
    extremes.add(sum_of(values, before.size()));
  }
  return extremes.share();
}

RunComparison compare_runs(const RunFigures& before, const RunFigures& after) {
  RunComparison compared;
  compared.is_per_step =
      before.steps_ns.size() >= kFewestSteps && after.steps_ns.size() >= kFewestSteps;
  compared.chance = chance_of(before.steps_ns, after.steps_ns);
  const auto factor_of = [&](const RunFigures& run) {
    if (!compared.is_per_step || run.wall_ns == 0) return 1.0;
    return mean_of(run.steps_ns) / static_cast<double>(run.wall_ns);
  };
  const double before_factor = factor_of(before), after_factor = factor_of(after);
  compared.wall_before_ns = static_cast<double>(before.wall_ns) * before_factor;
  compared.wall_after_ns = static_cast<double>(after.wall_ns) * after_factor;
  for (std::size_t i = 0; i < kLedgerPartCount; ++i) {
    compared.before_ns[i] = static_cast<double>(before.parts_ns[i]) * before_factor;
    compared.after_ns[i] = static_cast<double>(after.parts_ns[i]) * after_factor;
  }
  for (std::size_t i = 0; i < kCauseCount; ++i) {
    if (before.idle_by_cause_ns[i] == 0 && after.idle_by_cause_ns[i] == 0) continue;
    CauseChange change;
    change.cause = static_cast<Cause>(i);
    change.before_ns = static_cast<double>(before.idle_by_cause_ns[i]) * before_factor;
    change.after_ns = static_cast<double>(after.idle_by_cause_ns[i]) * after_factor;
    if (before.predicted_ns[i]) {
      change.predicted_ns = static_cast<double>(*before.predicted_ns[i]) * before_factor;
      change.outcome = outcome_of(*change.predicted_ns, change.before_ns - change.after_ns);
    }
    compared.causes.push_back(change);
  }
  std::sort(compared.causes.begin(), compared.causes.end(),
            [](const CauseChange& a, const CauseChange& b) {
              return std::make_tuple(-std::abs(a.before_ns - a.after_ns), a.cause) <
                     std::make_tuple(-std::abs(b.before_ns - b.after_ns), b.cause);
            });
  return compared;
}

}  // namespace gpuidle::analysis
