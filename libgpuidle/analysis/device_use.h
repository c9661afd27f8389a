// SPDX-License-Identifier: Apache-2.0
//
// How full a device was while it was busy, estimated from the kernels' launch shapes, and how long
// its idle windows were. Busy time hides idleness of another kind: a kernel of ten blocks keeps a
// device of a hundred multiprocessors "100 % utilised". Fed beside analyze(); feeds both reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/analysis/occupancy.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::analysis {

/// Kernel time by blocks per multiprocessor: under 1/4, 1/2, 1, 2, 4, and more.
inline constexpr std::array<double, 5> kFillLimits = {0.25, 0.5, 1, 2, 4};
/// The class among kFillLimits up to which a kernel leaves multiprocessors empty.
inline constexpr std::size_t kThinClasses = 3;

/// Idle windows by length: under 10 us, then a decade each up to 10 min, and more.
inline constexpr std::array<std::int64_t, 9> kWindowLimits_ns = {
    10'000,        100'000,        1'000'000,       10'000'000,     100'000'000,
    1'000'000'000, 10'000'000'000, 100'000'000'000, 600'000'000'000};

/// Kernels of one name on one device, communication left out.
struct KernelUse {
  model::StringId name = 0;
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;
  std::int64_t thin_ns = 0;  ///< of total_ns, with fewer blocks than multiprocessors
  /// Means weighted by time, over the launches for which they are known; empty: for none.
  std::optional<double> blocks_per_multiprocessor;
  std::optional<double> theoretical_ratio;
  std::optional<double> achieved_ratio;
  Occupancy limited;  ///< of the shape that ran longest; all false: not known
};

struct DeviceFill {
  std::uint32_t device = 0;
  std::uint32_t multiprocessors = 0;  ///< 0 = not known
  std::int64_t kernel_ns = 0;         ///< sum of kernel times, communication left out
  std::int64_t shape_known_ns = 0;    ///< of that, with blocks per multiprocessor known
  std::int64_t occupancy_known_ns = 0;
  std::array<std::int64_t, kFillLimits.size() + 1> fill_ns{};  ///< of shape_known_ns
  /// Estimated SM efficiency x ns: the share of multiprocessors that kernels of any kind give work
  /// to, blocks of kernels that run at the same time added up, at most 1, summed over time.
  double efficient_ns = 0;
  std::int64_t any_kernel_ns = 0;  ///< time with at least one kernel of known shape
  double theoretical_ns = 0;       ///< sum of theoretical occupancy x ns, over occupancy_known_ns
  double achieved_ns = 0;          ///< the same with estimated achieved occupancy
  std::vector<KernelUse> kernels;  ///< most thin time first, then most time
  std::array<SizeClass, kWindowLimits_ns.size() + 1> windows{};

  std::int64_t thin_ns() const;
};

struct DeviceUse {
  std::vector<DeviceFill> devices;  ///< by ordinal
  const DeviceFill* find(std::uint32_t device) const;
};

/// Give it to analyze() as Options::also and Options::gaps, then finish(). Memory is bounded by the
/// kernel table and by how many kernels run at a time. Context: tool.
class DeviceUseMeter : public model::SliceVisitor, public GapSink {
 public:
  explicit DeviceUseMeter(const model::Recording& recording);

  void on_slice(const model::Slice& slice) override;
  void on_gap(const Gap& gap) override;
  DeviceUse finish();

 private:
  struct Sums {
    std::uint64_t count = 0;
    std::int64_t total_ns = 0;
  };
  // A kernel that still runs: when it ends, and how many blocks per multiprocessor leave then.
  using Running = std::pair<std::int64_t, double>;
  struct Meter {
    DeviceFill fill;
    std::optional<MultiprocessorLimits> limits;
    std::vector<Sums> by_kernel;  // by KernelId
    std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
    double running_blocks = 0;
    std::int64_t swept_ns = std::numeric_limits<std::int64_t>::min();
  };

  Meter& meter(std::uint32_t device);
  static void sweep_to(std::int64_t until_ns, Meter* meter);
  void add(const model::DeviceActivity& op);
  void add_kernels(Meter* meter) const;

  const model::Recording& recording_;
  std::vector<bool> is_communication_;  // by KernelId
  std::map<std::uint32_t, Meter> meters_;
};

}  // namespace gpuidle::analysis
