// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/memory_findings.h"

#include <algorithm>

namespace gpuidle::analysis {
namespace {

// Thresholds of the study (table 1 there): utilisation at most half; memory at most half, or more
// than four fifths.
constexpr double kLowUtilisation = 0.5;

bool is_half_empty(const MemoryUse& use) { return 2 * use.reserved->bytes <= use.total_bytes; }
bool is_nearly_full(const MemoryUse& use) { return 5 * use.reserved->bytes > 4 * use.total_bytes; }

// Allocator and device records number devices alike with CUDA, not always with ROCm: there the
// first count HIP devices, the second agents of HSA.
bool are_same_devices(const Idleness& idleness, const std::vector<MemoryUse>& memory) {
  return std::equal(idleness.devices.begin(), idleness.devices.end(), memory.begin(), memory.end(),
                    [](const DeviceIdleness& device, const MemoryUse& use) {
                      return device.device == use.device;
                    });
}

// More work per launch helps where launching is what costs most, and hides everything else.
bool is_launch_bound(const std::vector<Finding>& told) {
  const auto most =
      std::max_element(told.begin(), told.end(),
                       [](const Finding& a, const Finding& b) { return a.total_ns < b.total_ns; });
  return most != told.end() && most->cause == Cause::launch_bound;
}

void add(Cause cause, const DeviceIdleness& device, const Thresholds& thresholds,
         std::vector<Finding>* told) {
  if (told->empty() || told->back().cause != cause) {
    Finding finding;
    finding.cause = cause;
    finding.grade = Grade::b;
    told->push_back(finding);
  }
  Finding& finding = told->back();
  finding.is_likely |= device.kernel_count < thresholds.sure_kernels;
  finding.window_ns += device.ledger.wall_ns();
  finding.devices.push_back(device.device);
}

}  // namespace

void add_memory_findings(const Idleness& idleness, const std::vector<MemoryUse>& memory,
                         const Thresholds& thresholds, Findings* found) {
  if (idleness.is_proof_only || !are_same_devices(idleness, memory)) return;
  const bool may_grow = is_launch_bound(found->told);
  for (const Cause cause : {Cause::memory_capped, Cause::small_batch}) {
    if (cause == Cause::small_batch && !may_grow) continue;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const auto utilisation = idleness.devices[i].kernel_ratio();
      if (!utilisation || *utilisation > kLowUtilisation || !memory[i].headroom_bytes()) continue;
      const bool applies =
          cause == Cause::small_batch ? is_half_empty(memory[i]) : is_nearly_full(memory[i]);
      if (applies) add(cause, idleness.devices[i], thresholds, &found->told);
    }
  }
}

}  // namespace gpuidle::analysis
