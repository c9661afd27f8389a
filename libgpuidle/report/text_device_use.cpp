// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/text_device_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/text_header.h"
#include "libgpuidle/symbols/demangle.h"

namespace gpuidle::report {
namespace {

using analysis::DeviceFill;
using analysis::KernelUse;

constexpr std::size_t kKernelsShown = 3;
// Windows from here on could hold work of somebody else: loading its data takes milliseconds.
constexpr std::size_t kFirstHarvestable = 4;
static_assert(analysis::kWindowLimits_ns[kFirstHarvestable - 1] == 10'000'000);

// `part` is a share x ns.
std::string share_of(double part_ns, std::int64_t whole_ns) {
  return format_share(static_cast<std::int64_t>(std::llround(part_ns)), whole_ns);
}

std::string percent(const std::optional<double>& ratio) {
  if (!ratio) return "not known";
  return *ratio > 0 && *ratio < 0.01 ? "<1 %" : fmt::format("{:.0f} %", 100 * *ratio);
}

std::string efficiency_of(const DeviceFill& fill, std::int64_t wall_ns) {
  if (fill.multiprocessors == 0) {
    return wrap(
        "the number of its multiprocessors is not recorded: how many of them its kernels "
        "kept busy is not known",
        "  ", 2);
  }
  if (fill.any_kernel_ns == 0) {
    return wrap(
        "the launch shapes of its kernels are not recorded: how many of its "
        "multiprocessors they kept busy is not known",
        "  ", 2);
  }
  std::string text =
      wrap(fmt::format("est. SM efficiency (multiprocessors that had work): {} of its wall time, "
                       "{} while kernels ran ({} "
                       "multiprocessors)",
                       share_of(fill.efficient_ns, wall_ns),
                       share_of(fill.efficient_ns, fill.any_kernel_ns), fill.multiprocessors),
           "  ", 2);
  if (fill.shape_known_ns > 0) {
    text += wrap(
        fmt::format("kernels with fewer blocks than multiprocessors: {}, {} of kernel "
                    "time",
                    format_duration(fill.thin_ns()), format_share(fill.thin_ns(), fill.kernel_ns)),
        "  ", 2);
  }
  return text;
}

std::string occupancy_of(const DeviceFill& fill, std::int64_t wall_ns) {
  if (fill.multiprocessors == 0 || fill.kernel_ns == 0) return {};
  if (fill.occupancy_known_ns == 0) {
    return wrap("occupancy not known: registers or the compute capability are not recorded", "  ",
                2);
  }
  std::string text = fmt::format(
      "occupancy, weighted by kernel time: theoretical {}, est. achieved {} (of its "
      "wall time {})",
      share_of(fill.theoretical_ns, fill.occupancy_known_ns),
      share_of(fill.achieved_ns, fill.occupancy_known_ns),
      share_of(std::min(fill.achieved_ns, static_cast<double>(wall_ns)), wall_ns));
  if (fill.occupancy_known_ns < fill.kernel_ns) {
    text += fmt::format("; known for {} of kernel time",
                        format_share(fill.occupancy_known_ns, fill.kernel_ns));
  }
  return wrap(text, "  ", 2);
}

std::string kernel_of(const ReportInput& input, const DeviceFill& fill, const KernelUse& kernel) {
  const std::string head = fmt::format("{:>10}  {:>7}", format_duration(kernel.thin_ns),
                                       format_share(kernel.thin_ns, fill.kernel_ns));
  const std::string name =
      elide(symbols::demangle(input.recording.tables().string(kernel.name)), kColumns - 25);
  std::string text = fmt::format("    {}  {}\n", head, name);
  std::string facts =
      fmt::format("{}, {:.2g} blocks per SM, occupancy est. {} of possible {}",
                  count_of(kernel.count, "run"), kernel.blocks_per_multiprocessor.value_or(0),
                  percent(kernel.achieved_ratio), percent(kernel.theoretical_ratio));
  const std::string limiters = limiters_of(kernel.limited);
  if (!limiters.empty() && kernel.limited.ratio < 1) facts += " (limited by " + limiters + ")";
  return text + wrap(facts, std::string(25, ' '), 25);
}

std::string thin_kernels_of(const ReportInput& input, const DeviceFill& fill) {
  std::string text;
  for (std::size_t i = 0; i < fill.kernels.size() && i < kKernelsShown; ++i) {
    if (fill.kernels[i].thin_ns > 0) text += kernel_of(input, fill, fill.kernels[i]);
  }
  return text.empty() ? text : "  of these most:\n" + text;
}

std::string windows_of(const DeviceFill& fill) {
  analysis::SizeClass long_ones, all;
  for (std::size_t i = 0; i < fill.windows.size(); ++i) {
    all.count += fill.windows[i].count;
    all.total_ns += fill.windows[i].total_ns;
    if (i < kFirstHarvestable) continue;
    long_ones.count += fill.windows[i].count;
    long_ones.total_ns += fill.windows[i].total_ns;
  }
  if (long_ones.count == 0)
    return "  no idle window of 10 ms or more, which other work could use\n";
  return wrap(fmt::format("idle windows of 10 ms and more, which other work could use: {}, {} ({} "
                          "of its idle time)",
                          format_count(long_ones.count), format_duration(long_ones.total_ns),
                          format_share(long_ones.total_ns, all.total_ns)),
              "  ", 2);
}

}  // namespace

std::string limiters_of(const analysis::Occupancy& occupancy) {
  std::string text;
  const auto add = [&text](bool is_limiter, const char* name) {
    if (is_limiter) text += (text.empty() ? "" : " and ") + std::string(name);
  };
  add(occupancy.by_registers, "registers");
  add(occupancy.by_shared_memory, "shared memory");
  add(occupancy.by_warps, "warps");
  add(occupancy.by_blocks, "blocks");
  return text;
}

std::string text_device_use(const ReportInput& input, const Style& style) {
  if (input.use == nullptr || input.found.is_proof_only) return {};
  std::string text;
  for (const analysis::DeviceIdleness& device : input.found.devices) {
    const DeviceFill* fill = input.use->find(device.device);
    if (fill == nullptr) continue;
    const std::int64_t wall_ns = device.ledger.wall_ns();
    text += wrap(device_name(input.recording, device) + ":", "", 2);
    text += efficiency_of(*fill, wall_ns) + thin_kernels_of(input, *fill);
    text += occupancy_of(*fill, wall_ns) + windows_of(*fill);
  }
  if (text.empty()) return text;
  return "\n" + style.heading("How full the devices were") +
         " (estimated from launch shapes, not measured)\n" + text;
}

}  // namespace gpuidle::report
