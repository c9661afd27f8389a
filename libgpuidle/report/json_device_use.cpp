// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/json_device_use.h"

#include "libgpuidle/symbols/demangle.h"

namespace gpuidle::report {
namespace {

using analysis::DeviceFill;
using analysis::KernelUse;

std::optional<double> ratio_of(double part_ns, std::int64_t whole_ns) {
  if (whole_ns <= 0) return std::nullopt;
  return part_ns / static_cast<double>(whole_ns);
}

void write_limiters(const analysis::Occupancy& limited, JsonWriter* json) {
  json->key("limited_by").begin_array();
  if (limited.by_warps) json->value("warps");
  if (limited.by_blocks) json->value("blocks");
  if (limited.by_registers) json->value("registers");
  if (limited.by_shared_memory) json->value("shared_memory");
  json->end_array();
}

void write_kernel(const model::Tables& tables, const KernelUse& kernel, JsonWriter* json) {
  json->begin_object();
  json->field("name", symbols::demangle(tables.string(kernel.name)));
  json->field("count", kernel.count).field("total_ns", kernel.total_ns);
  json->field("thin_ns", kernel.thin_ns);
  json->field("blocks_per_multiprocessor", kernel.blocks_per_multiprocessor);
  json->field("theoretical_occupancy_ratio", kernel.theoretical_ratio);
  json->field("estimated_achieved_occupancy_ratio", kernel.achieved_ratio);
  write_limiters(kernel.limited, json);
  json->end_object();
}

void write_fill(const model::Tables& tables, const DeviceFill& fill, std::int64_t wall_ns,
                JsonWriter* json) {
  json->key("fill").begin_object();
  json->key("multiprocessors");
  fill.multiprocessors != 0 ? json->value(fill.multiprocessors) : json->null();
  json->field("computing_kernel_ns", fill.kernel_ns);
  json->field("shape_known_ns", fill.shape_known_ns);
  json->field("thin_kernel_ns", fill.thin_ns());
  json->field("estimated_efficiency_of_wall_ratio",
              fill.any_kernel_ns > 0 ? ratio_of(fill.efficient_ns, wall_ns) : std::nullopt);
  json->field("estimated_efficiency_of_kernel_time_ratio",
              ratio_of(fill.efficient_ns, fill.any_kernel_ns));
  json->field("occupancy_known_ns", fill.occupancy_known_ns);
  json->field("theoretical_occupancy_ratio",
              ratio_of(fill.theoretical_ns, fill.occupancy_known_ns));
  json->field("estimated_achieved_occupancy_ratio",
              ratio_of(fill.achieved_ns, fill.occupancy_known_ns));
  json->key("kernel_time_by_blocks_per_multiprocessor").begin_array();
  for (std::size_t i = 0; i < fill.fill_ns.size(); ++i) {
    json->begin_object();
    json->field("from", i == 0 ? 0.0 : analysis::kFillLimits[i - 1]).key("below");
    i < analysis::kFillLimits.size() ? json->value(analysis::kFillLimits[i]) : json->null();
    json->field("total_ns", fill.fill_ns[i]).end_object();
  }
  json->end_array().key("kernels").begin_array();
  constexpr std::size_t kKernels = 50;
  for (std::size_t i = 0; i < fill.kernels.size() && i < kKernels; ++i) {
    write_kernel(tables, fill.kernels[i], json);
  }
  json->end_array().end_object();
}

void write_windows(const DeviceFill& fill, JsonWriter* json) {
  json->key("idle_windows").begin_array();
  for (std::size_t i = 0; i < fill.windows.size(); ++i) {
    json->begin_object();
    json->field("from_ns", i == 0 ? std::int64_t{0} : analysis::kWindowLimits_ns[i - 1]);
    json->key("below_ns");
    i < analysis::kWindowLimits_ns.size() ? json->value(analysis::kWindowLimits_ns[i])
                                          : json->null();
    json->field("count", fill.windows[i].count).field("total_ns", fill.windows[i].total_ns);
    json->end_object();
  }
  json->end_array();
}

}  // namespace

void write_device_use(const ReportInput& input, const analysis::DeviceIdleness& device,
                      JsonWriter* json) {
  const DeviceFill* fill = input.use != nullptr ? input.use->find(device.device) : nullptr;
  if (fill == nullptr) return;
  write_fill(input.recording.tables(), *fill, device.ledger.wall_ns(), json);
  write_windows(*fill, json);
}

}  // namespace gpuidle::report
