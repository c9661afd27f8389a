// SPDX-License-Identifier: Apache-2.0
//
// Occupancy against values from NVIDIA's own calculator, and against the calculator itself.
#include "libgpuidle/analysis/occupancy.h"

#include <catch2/catch.hpp>
#include <climits>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "libgpuidle/analysis/device_use.h"
#include "tests/unit/ledger_recording.h"
#include "tests/unit/occupancy_oracle.h"

namespace gpuidle::tests {
namespace {

using analysis::SharedLimit;

model::Kernel kernel_of(std::uint32_t threads, std::uint32_t registers, std::uint32_t dynamic_bytes,
                        std::uint32_t static_bytes = 0) {
  model::Kernel kernel;
  kernel.grid = {1, 1, 1};
  kernel.block = {threads, 1, 1};
  kernel.registers_per_thread = registers;
  kernel.static_shared_bytes = static_bytes;
  kernel.dynamic_shared_bytes = dynamic_bytes;
  return kernel;
}

TEST_CASE("occupancy on compute capability 9.0 is what NVIDIA's calculator says") {
  struct Golden {
    std::uint32_t threads, registers, dynamic_kib;
    SharedLimit limit;
    std::uint32_t blocks;
    double percent;
    bool by_warps, by_registers, by_shared;
  };
  const Golden goldens[] = {
      {256, 32, 0, SharedLimit::standard, 8, 100, true, true, false},
      {256, 64, 0, SharedLimit::standard, 4, 50, false, true, false},
      {256, 128, 0, SharedLimit::standard, 2, 25, false, true, false},
      {96, 80, 0, SharedLimit::standard, 8, 37.5, false, true, false},
      {128, 168, 100, SharedLimit::standard, 0, 0, false, false, true},
      {128, 168, 100, SharedLimit::opt_in, 2, 12.5, false, false, true},
      {384, 168, 200, SharedLimit::standard, 0, 0, false, false, true},
      {384, 168, 200, SharedLimit::opt_in, 1, 18.75, false, true, true},
  };
  const auto limits = analysis::limits_of(9, 0);
  REQUIRE(limits);
  for (const Golden& golden : goldens) {
    INFO(golden.threads << " threads, " << golden.registers << " registers, " << golden.dynamic_kib
                        << " KiB");
    const auto found = analysis::theoretical_occupancy(
        kernel_of(golden.threads, golden.registers, golden.dynamic_kib * 1024), *limits,
        golden.limit);
    REQUIRE(found);
    CHECK(found->blocks == golden.blocks);
    CHECK(100 * found->ratio == Approx(golden.percent));
    CHECK(found->by_warps == golden.by_warps);
    CHECK(found->by_registers == golden.by_registers);
    CHECK(found->by_shared_memory == golden.by_shared);
  }
}

TEST_CASE("a kernel that ran with more than the standard limit had opted in") {
  const auto limits = analysis::limits_of(9, 0);
  REQUIRE(limits);
  CHECK(analysis::shared_limit_of_launched(kernel_of(128, 32, 48 * 1024), *limits) ==
        SharedLimit::standard);
  CHECK(analysis::shared_limit_of_launched(kernel_of(128, 32, 47 * 1024, 1025), *limits) ==
        SharedLimit::opt_in);
}

TEST_CASE("what is not recorded gives no occupancy") {
  const auto limits = analysis::limits_of(8, 0);
  REQUIRE(limits);
  CHECK_FALSE(analysis::theoretical_occupancy(kernel_of(0, 32, 0), *limits, SharedLimit::standard));
  CHECK_FALSE(analysis::theoretical_occupancy(kernel_of(64, 0, 0), *limits, SharedLimit::standard));
  CHECK_FALSE(analysis::limits_of(0, 0));
  CHECK_FALSE(analysis::limits_of(9, 4));
  CHECK_FALSE(analysis::limits_of(99, 0));
  CHECK_FALSE(analysis::blocks_per_multiprocessor(kernel_of(64, 32, 0), 0));
  CHECK_FALSE(analysis::blocks_per_multiprocessor(model::Kernel{}, 108));
}

TEST_CASE("occupancy of random kernels on every known capability is the calculator's") {
  std::mt19937 random(20240601);
  const auto up_to = [&random](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
  };
  std::size_t compared = 0;
  for (const OracleDevice& device : kOracleDevices) {
    const auto limits = analysis::limits_of(device.major, device.minor);
    INFO("compute capability " << device.major << "." << device.minor);
    REQUIRE(limits);
    for (int i = 0; i < 2000; ++i) {
      const model::Kernel kernel =
          kernel_of(1 + up_to(1023), 1 + up_to(254), up_to(3) == 0 ? 0 : up_to(230 * 1024),
                    up_to(1) == 0 ? 0 : up_to(48 * 1024));
      const bool is_opt_in = up_to(1) == 1 && device.major >= 7;
      const auto oracle = oracle_blocks(device, kernel, is_opt_in);
      const auto found = analysis::theoretical_occupancy(
          kernel, *limits, is_opt_in ? SharedLimit::opt_in : SharedLimit::standard);
      REQUIRE(found);
      INFO(kernel.block[0] << " threads, " << kernel.registers_per_thread << " registers, "
                           << kernel.static_shared_bytes << " + " << kernel.dynamic_shared_bytes
                           << " bytes, opt-in " << is_opt_in);
      REQUIRE(oracle == found->blocks);
      ++compared;
    }
  }
  CHECK(compared == 2000 * std::size(kOracleDevices));
}

// A device of 10 multiprocessors of compute capability 9.0.
class FillRecording : public LedgerRecording {
 public:
  FillRecording() {
    model::Device row;
    row.multiprocessors = 10;
    row.compute_major = 9;
    mutable_tables().set_device(row);
  }
  void shaped(std::int64_t start_ns, std::int64_t end_ns, std::uint32_t blocks,
              std::string_view name = "k") {
    kernel(start_ns, end_ns, launch(start_ns, start_ns), name);
    model::Kernel shape = kernel_of(256, 64, 0);
    shape.name = mutable_tables().intern(name);
    shape.grid = {blocks, 1, 1};
    records.activities.back().kernel = mutable_tables().intern(shape);
  }
  analysis::DeviceFill measure() {
    seal();
    analysis::DeviceUseMeter meter(*this);
    analysis::Options options;
    options.gaps = &meter;
    options.also = {&meter};
    analysis::Idleness found;
    REQUIRE(analysis::analyze(*this, options, &found).ok());
    const analysis::DeviceUse use = meter.finish();
    REQUIRE(use.devices.size() == 1);
    return use.devices[0];
  }
};

TEST_CASE("blocks of kernels that run at the same time add up, but never past the device") {
  FillRecording recording;
  recording.shaped(0, 100, 2);
  recording.shaped(50, 150, 3);
  recording.shaped(60, 70, 20);
  const analysis::DeviceFill fill = recording.measure();
  // 50 at 0.2, 10 at 0.5, 10 at 1, 30 at 0.5, 50 at 0.3
  CHECK(fill.efficient_ns == Approx(10 + 5 + 10 + 15 + 15));
  CHECK(fill.any_kernel_ns == 150);
  CHECK(fill.kernel_ns == 210);
  CHECK(fill.thin_ns() == 200);
}

TEST_CASE("idle time does not fill a device, and its windows are counted by length") {
  FillRecording recording;
  recording.shaped(0, 1000, 5);
  recording.shaped(us(10), us(11), 5);    // after 9 us
  recording.shaped(us(21), us(22), 5);    // after 10 us
  recording.shaped(ms(20), ms(21), 100);  // after 20 ms less 22 us
  const analysis::DeviceFill fill = recording.measure();
  CHECK(fill.efficient_ns == Approx(0.5 * 3000 + 1e6));
  CHECK(fill.windows[0].count == 1);
  CHECK(fill.windows[0].total_ns == us(9));
  CHECK(fill.windows[1].count == 1);
  CHECK(fill.windows[1].total_ns == us(10));
  CHECK(fill.windows[4].count == 1);
  CHECK(fill.windows[4].total_ns == ms(20) - us(22));
}

TEST_CASE("kernels of one name are one row, with means weighted by time") {
  FillRecording recording;
  recording.shaped(0, 100, 5, "thin");
  recording.shaped(100, 400, 25, "thin");
  recording.shaped(400, 500, 80, "full");
  recording.shaped(500, 600, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  const analysis::DeviceFill fill = recording.measure();
  REQUIRE(fill.kernels.size() == 2);
  CHECK(recording.tables().string(fill.kernels[0].name) == "thin");
  CHECK(fill.kernels[0].count == 2);
  CHECK(fill.kernels[0].thin_ns == 100);
  CHECK(fill.kernels[0].blocks_per_multiprocessor == Approx((0.5 * 100 + 2.5 * 300) / 400));
  // 64 registers: 4 blocks of 256 threads fit, half of the 2048 threads.
  CHECK(fill.kernels[0].theoretical_ratio == Approx(0.5));
  CHECK(fill.kernels[0].achieved_ratio == Approx((0.5 * 100 + 2.5 * 300) / 400 * 256 / 2048));
  CHECK(fill.kernels[1].achieved_ratio == Approx(0.5));
  CHECK(fill.kernels[0].limited.by_registers);
  CHECK(fill.kernel_ns == 500);
}

}  // namespace
}  // namespace gpuidle::tests
