// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/job_findings.h"

#include <algorithm>
#include <optional>

namespace gpuidle::analysis {
namespace {

// Of the kernels whose call is known; a few first ones may be awaited for loading.
constexpr std::uint64_t kAwaitedPercent = 95;
constexpr int kLifePercent = 5;

bool is_our_own(const model::RecordingInfo& info) {
  return info.source != model::Source::imported && info.source != model::Source::unknown;
}

bool has_watched_devices(const model::RecordingInfo& info) {
  return info.source == model::Source::cupti || info.source == model::Source::cupti_shared;
}

std::optional<std::int64_t> life_of(const model::RecordingInfo& info) {
  if (!is_our_own(info) || !info.process_start_ns || !info.recording_end_ns) return std::nullopt;
  return *info.recording_end_ns - *info.process_start_ns;
}

Finding job_finding(Cause cause, std::int64_t total_ns, std::int64_t window_ns) {
  Finding finding;
  finding.cause = cause;
  finding.grade = Grade::a;
  finding.is_high = true;
  finding.total_ns = total_ns;
  finding.window_ns = window_ns;
  return finding;
}

// The time in which no device had begun, or every one had finished.
std::int64_t smallest(const Idleness& idleness, std::optional<std::int64_t> DeviceIdleness::*part) {
  std::int64_t least_ns = -1;
  for (const DeviceIdleness& device : idleness.devices) {
    const std::int64_t ns = (device.*part).value_or(0);
    least_ns = least_ns < 0 ? ns : std::min(least_ns, ns);
  }
  return std::max<std::int64_t>(0, least_ns);
}

void add_head_and_tail(const model::RecordingInfo& info, const Idleness& idleness,
                       const Thresholds& thresholds, std::vector<Finding>* findings) {
  const auto life_ns = life_of(info);
  if (!life_ns || idleness.devices.empty()) return;
  const auto is_large = [&](std::int64_t ns) { return ns * 100 >= *life_ns * kLifePercent; };
  const std::int64_t head_ns = smallest(idleness, &DeviceIdleness::head_ns);
  if (head_ns >= thresholds.startup_ns && is_large(head_ns)) {
    findings->push_back(job_finding(Cause::startup, head_ns, *life_ns));
    findings->back().saving_ns = head_ns;
  }
  // How an abrupt end came about is not known, nor when.
  if (info.end != model::End::clean) return;
  const std::int64_t tail_ns = smallest(idleness, &DeviceIdleness::tail_ns);
  const bool is_long =
      tail_ns >= thresholds.linger_ns || (is_large(tail_ns) && tail_ns >= thresholds.sure_total_ns);
  if (is_long && tail_ns > 0) {
    findings->push_back(job_finding(Cause::linger, tail_ns, *life_ns));
    findings->back().saving_ns = tail_ns;
  }
}

void add_unused(const model::Recording& recording, const Idleness& idleness,
                const Thresholds& thresholds, std::vector<Finding>* findings) {
  const model::RecordingInfo& info = recording.info();
  if (!has_watched_devices(info)) return;
  std::vector<std::uint32_t> unused;
  for (const model::Device& row : recording.tables().devices()) {
    const bool is_used =
        std::any_of(idleness.devices.begin(), idleness.devices.end(),
                    [&](const DeviceIdleness& device) { return device.device == row.ordinal; });
    if (!is_used) unused.push_back(row.ordinal);
  }
  std::sort(unused.begin(), unused.end());
  const std::int64_t life_ns = life_of(info).value_or(0);
  if (!idleness.devices.empty()) {
    if (unused.empty()) return;
    findings->push_back(job_finding(Cause::device_unused, life_ns, life_ns));
  } else {
    const bool asked_for_work = idleness.enqueue_count > 0 || info.launch_calls > 0;
    if (asked_for_work || life_ns < thresholds.idle_life_ns) return;
    findings->push_back(job_finding(Cause::no_gpu_work, life_ns, life_ns));
  }
  findings->back().devices = unused;
}

void add_launch_blocking(const Idleness& idleness, const Thresholds& thresholds,
                         std::vector<Finding>* findings) {
  std::uint64_t called = 0, awaited = 0;
  for (const DeviceIdleness& device : idleness.devices) {
    called += device.called_kernel_count;
    awaited += device.awaited_kernel_count;
  }
  if (called < thresholds.sure_kernels || awaited * 100 < called * kAwaitedPercent) return;
  findings->push_back(job_finding(Cause::launch_blocking, idleness.idle_ns(), idleness.wall_ns()));
  findings->back().count = awaited;
}

}  // namespace

void add_job_findings(const model::Recording& recording, const Idleness& idleness,
                      const Thresholds& thresholds, std::vector<Finding>* findings) {
  add_head_and_tail(recording.info(), idleness, thresholds, findings);
  add_unused(recording, idleness, thresholds, findings);
  if (!idleness.is_proof_only) add_launch_blocking(idleness, thresholds, findings);
}

}  // namespace gpuidle::analysis
