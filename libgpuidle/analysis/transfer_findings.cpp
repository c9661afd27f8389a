// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/transfer_findings.h"

#include <algorithm>
#include <optional>

#include "libgpuidle/analysis/clues.h"

namespace gpuidle::analysis {
namespace {

using model::CopyKind;

constexpr std::uint64_t kManyCopies = 100;
constexpr std::int64_t kShortCopy_ns = 1'000'000;
// A copy that takes less is not worth a stream of its own.
constexpr std::int64_t kWorthHiding_ns = 100'000;

// Half hidden is well hidden: the rest is the start of a pipeline.
bool is_exposed(const ExposedGroup& group) { return 2 * group.exposed_ns >= group.total_ns; }

std::int64_t mean_ns(const ExposedGroup& group) {
  return group.total_ns / static_cast<std::int64_t>(group.count);
}

std::optional<Cause> upload_cause(const ExposedGroup& group) {
  const std::uint64_t mean_bytes = group.bytes / group.count;
  if (mean_bytes < kSmallCopyBytes) {
    const bool is_burst = group.count >= kManyCopies && mean_ns(group) < kShortCopy_ns;
    return is_burst ? std::optional<Cause>(Cause::h2d_fragmented) : std::nullopt;
  }
  if (!is_exposed(group)) return std::nullopt;
  if (group.source == model::MemoryKind::pageable) return Cause::h2d_pageable;
  return mean_ns(group) >= kWorthHiding_ns ? std::optional<Cause>(Cause::h2d_blocking)
                                           : std::nullopt;
}

// The host waits for the result, or goes on and the next kernel waits behind the copy.
std::optional<Cause> download_cause(const Idleness& idleness, const ExposedGroup& group) {
  if (group.bytes / group.count <= kScalarBytes || !is_exposed(group)) return std::nullopt;
  const bool is_awaited =
      group.call_ns >= group.total_ns ||
      std::any_of(idleness.groups.begin(), idleness.groups.end(), [&](const GapGroup& gaps) {
        return gaps.cause == Cause::d2h_copy && gaps.stack == group.stack;
      });
  return is_awaited ? Cause::d2h_copy : Cause::copy_engine;
}

std::optional<TransferCost> cost_of(const Idleness& idleness, const ExposedGroup& group) {
  const auto is = [&](std::optional<Cause> cause, Grade grade) {
    return cause ? std::optional<TransferCost>({&group, *cause, grade}) : std::nullopt;
  };
  // One rank's recording cannot tell an exchange from the wait for a late peer.
  if (group.is_communication) return is(Cause::comm_exposed, Grade::c);
  if (group.copy != CopyKind::host_to_device && group.copy != CopyKind::device_to_host) {
    return std::nullopt;
  }
  if (group.work == HostWork::checkpoint) return is(Cause::checkpoint_sync, Grade::b);
  if (group.work == HostWork::upload) return is(Cause::result_upload, Grade::b);
  return is(group.copy == CopyKind::host_to_device ? upload_cause(group)
                                                   : download_cause(idleness, group),
            Grade::a);
}

}  // namespace

std::vector<TransferCost> transfer_costs(const Idleness& idleness) {
  std::vector<TransferCost> costs;
  for (const ExposedGroup& group : idleness.exposed) {
    if (const auto cost = cost_of(idleness, group)) costs.push_back(*cost);
  }
  return costs;
}

}  // namespace gpuidle::analysis
