// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/device_use.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "libgpuidle/analysis/communication.h"

namespace gpuidle::analysis {
namespace {

template <typename Limits, typename Value>
std::size_t class_of(const Limits& limits, Value value) {
  std::size_t i = 0;
  while (i < limits.size() && value >= limits[i]) ++i;
  return i;
}

// A mean weighted by time.
class Mean {
 public:
  void add(double value, std::int64_t ns) {
    sum_ += value * static_cast<double>(ns);
    ns_ += ns;
  }
  std::optional<double> value() const {
    if (ns_ == 0) return std::nullopt;
    return sum_ / static_cast<double>(ns_);
  }

 private:
  double sum_ = 0;
  std::int64_t ns_ = 0;
};

struct Named {
  KernelUse use;
  Mean blocks, theoretical, achieved;
  std::int64_t longest_shape_ns = -1;
};

}  // namespace

std::int64_t DeviceFill::thin_ns() const {
  return std::accumulate(fill_ns.begin(), fill_ns.begin() + kThinClasses, std::int64_t{0});
}

const DeviceFill* DeviceUse::find(std::uint32_t device) const {
  for (const DeviceFill& fill : devices) {
    if (fill.device == device) return &fill;
  }
  return nullptr;
}

DeviceUseMeter::DeviceUseMeter(const model::Recording& recording) : recording_(recording) {
  const model::Tables& tables = recording.tables();
  for (const model::Kernel& kernel : tables.kernels()) {
    is_communication_.push_back(is_communication_kernel(tables.string(kernel.name)));
  }
}

DeviceUseMeter::Meter& DeviceUseMeter::meter(std::uint32_t device) {
  const auto [at, is_new] = meters_.try_emplace(device);
  if (!is_new) return at->second;
  Meter& fresh = at->second;
  fresh.fill.device = device;
  fresh.by_kernel.resize(is_communication_.size());
  for (const model::Device& row : recording_.tables().devices()) {
    if (row.ordinal != device) continue;
    fresh.fill.multiprocessors = row.multiprocessors;
    fresh.limits = limits_of(row.compute_major, row.compute_minor);
  }
  return fresh;
}

void DeviceUseMeter::sweep_to(std::int64_t until_ns, Meter* meter) {
  while (!meter->running.empty() && meter->swept_ns < until_ns) {
    const auto [end_ns, blocks] = meter->running.top();
    const std::int64_t to_ns = std::min(end_ns, until_ns);
    if (to_ns > meter->swept_ns) {
      const std::int64_t ns = to_ns - meter->swept_ns;
      meter->fill.any_kernel_ns += ns;
      meter->fill.efficient_ns += std::min(1.0, meter->running_blocks) * static_cast<double>(ns);
      meter->swept_ns = to_ns;
    }
    if (end_ns > until_ns) return;
    meter->running.pop();
    // Sums of doubles drift; an empty device is empty.
    meter->running_blocks = meter->running.empty() ? 0 : meter->running_blocks - blocks;
  }
  meter->swept_ns = until_ns;
}

void DeviceUseMeter::add(const model::DeviceActivity& op) {
  if (op.kind != model::ActivityKind::kernel || op.kernel >= is_communication_.size() ||
      op.end_ns < op.start_ns) {
    return;
  }
  Meter& meter = this->meter(op.device);
  const auto blocks = blocks_per_multiprocessor(recording_.tables().kernels()[op.kernel],
                                                meter.fill.multiprocessors);
  if (blocks) {
    // Equal to the last start at least: activities come in order of it.
    if (op.start_ns > meter.swept_ns) sweep_to(op.start_ns, &meter);
    meter.running.emplace(op.end_ns, *blocks);
    meter.running_blocks += *blocks;
  }
  Sums& sums = meter.by_kernel[op.kernel];
  ++sums.count;
  sums.total_ns += op.end_ns - op.start_ns;
}

void DeviceUseMeter::on_slice(const model::Slice& slice) {
  for (const model::DeviceActivity& op : slice.activities) add(op);
}

void DeviceUseMeter::on_gap(const Gap& gap) {
  SizeClass& window = meter(gap.device).fill.windows[class_of(kWindowLimits_ns, gap.length_ns())];
  ++window.count;
  window.total_ns += gap.length_ns();
}

void DeviceUseMeter::add_kernels(Meter* meter) const {
  DeviceFill& fill = meter->fill;
  std::map<model::StringId, Named> names;
  for (std::size_t id = 0; id < meter->by_kernel.size(); ++id) {
    const Sums& sums = meter->by_kernel[id];
    if (sums.count == 0 || is_communication_[id]) continue;
    const model::Kernel& kernel = recording_.tables().kernels()[id];
    Named& named = names[kernel.name];
    named.use.name = kernel.name;
    named.use.count += sums.count;
    named.use.total_ns += sums.total_ns;
    fill.kernel_ns += sums.total_ns;
    const auto blocks = blocks_per_multiprocessor(kernel, fill.multiprocessors);
    if (!blocks) continue;
    fill.shape_known_ns += sums.total_ns;
    const std::size_t fill_class = class_of(kFillLimits, *blocks);
    fill.fill_ns[fill_class] += sums.total_ns;
    if (fill_class < kThinClasses) named.use.thin_ns += sums.total_ns;
    named.blocks.add(*blocks, sums.total_ns);
    if (!meter->limits) continue;
    const auto occupancy = theoretical_occupancy(kernel, *meter->limits,
                                                 shared_limit_of_launched(kernel, *meter->limits));
    if (!occupancy) continue;
    // Kineto's definition, so that figures can be compared: threads, not whole warps.
    const double achieved = std::min<double>(occupancy->blocks, *blocks) *
                            static_cast<double>(threads_per_block(kernel)) / meter->limits->threads;
    fill.occupancy_known_ns += sums.total_ns;
    fill.theoretical_ns += occupancy->ratio * static_cast<double>(sums.total_ns);
    fill.achieved_ns += achieved * static_cast<double>(sums.total_ns);
    named.theoretical.add(occupancy->ratio, sums.total_ns);
    named.achieved.add(achieved, sums.total_ns);
    if (sums.total_ns > named.longest_shape_ns) {
      named.longest_shape_ns = sums.total_ns;
      named.use.limited = *occupancy;
    }
  }
  for (auto& [name, named] : names) {
    named.use.blocks_per_multiprocessor = named.blocks.value();
    named.use.theoretical_ratio = named.theoretical.value();
    named.use.achieved_ratio = named.achieved.value();
    fill.kernels.push_back(named.use);
  }
  std::sort(fill.kernels.begin(), fill.kernels.end(), [](const KernelUse& a, const KernelUse& b) {
    return std::make_tuple(-a.thin_ns, -a.total_ns, a.name) <
           std::make_tuple(-b.thin_ns, -b.total_ns, b.name);
  });
}

DeviceUse DeviceUseMeter::finish() {
  DeviceUse use;
  for (auto& [ordinal, meter] : meters_) {
    sweep_to(std::numeric_limits<std::int64_t>::max(), &meter);
    add_kernels(&meter);
    use.devices.push_back(std::move(meter.fill));
  }
  meters_.clear();
  return use;
}

}  // namespace gpuidle::analysis
