// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/occupancy.h"

#include <algorithm>
#include <limits>

namespace gpuidle::analysis {
namespace {

constexpr std::uint32_t kKiB = 1024;
constexpr std::uint64_t kWarp = 32;
constexpr std::uint64_t kRegisterGranularity = 256;

// "Technical Specifications per Compute Capability" of the CUDA programming guide; sizes in KiB.
struct Capability {
  std::uint32_t major, minor;
  std::uint32_t threads, blocks;
  std::uint32_t shared, shared_opt_in;  // before 7.0 there is nothing to opt in to
  std::uint32_t registers_per_block;    // in units of 1024
};
constexpr Capability kCapabilities[] = {
    {5, 0, 2048, 32, 64, 48, 64},    {5, 2, 2048, 32, 96, 48, 64},
    {5, 3, 2048, 32, 64, 48, 32},    {6, 0, 2048, 32, 64, 48, 64},
    {6, 1, 2048, 32, 96, 48, 64},    {6, 2, 2048, 32, 64, 48, 32},
    {7, 0, 2048, 32, 96, 96, 64},    {7, 2, 2048, 32, 96, 96, 64},
    {7, 5, 1024, 16, 64, 64, 64},    {8, 0, 2048, 32, 164, 163, 64},
    {8, 6, 1536, 16, 100, 99, 64},   {8, 7, 1536, 16, 164, 163, 64},
    {8, 9, 1536, 24, 100, 99, 64},   {9, 0, 2048, 32, 228, 227, 64},
    {10, 0, 2048, 32, 228, 227, 64}, {10, 1, 1536, 24, 228, 227, 64},
    {10, 3, 2048, 32, 228, 227, 64}, {11, 0, 1536, 24, 228, 227, 64},
    {12, 0, 1536, 24, 100, 99, 64},  {12, 1, 1536, 24, 100, 99, 64}};

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

std::uint64_t blocks_by_registers(std::uint64_t registers, std::uint64_t warps,
                                  std::uint64_t partitions, const MultiprocessorLimits& limits) {
  const std::uint64_t per_warp = round_up(registers * kWarp, kRegisterGranularity);
  if (registers > limits.registers_per_thread ||
      limits.registers_per_block < per_warp * round_up(warps, partitions)) {
    return 0;
  }
  // A warp's registers lie in one partition; what is left over in each is of no use.
  return limits.registers / partitions / per_warp * partitions / warps;
}

std::uint64_t blocks_by_registers(std::uint64_t registers, std::uint64_t warps,
                                  const MultiprocessorLimits& limits) {
  // Capability 6.0 has two partitions, but is only given what 6.1 with its four can run.
  constexpr std::uint64_t kUsualPartitions = 4;
  if (blocks_by_registers(registers, warps, kUsualPartitions, limits) == 0) return 0;
  return blocks_by_registers(registers, warps, limits.partitions, limits);
}

std::uint64_t blocks_by_shared_memory(const model::Kernel& kernel,
                                      const MultiprocessorLimits& limits, SharedLimit limit) {
  const std::uint64_t allocated =
      round_up(std::uint64_t{kernel.static_shared_bytes} + limits.shared_reserved_bytes +
                   kernel.dynamic_shared_bytes,
               limits.shared_granularity_bytes);
  const std::uint64_t allowed = limits.shared_reserved_bytes +
                                (limit == SharedLimit::opt_in ? limits.shared_per_block_opt_in_bytes
                                                              : limits.shared_per_block_bytes);
  if (allocated > allowed) return 0;
  return allocated == 0 ? std::numeric_limits<std::uint64_t>::max()
                        : limits.shared_bytes / allocated;
}

}  // namespace

std::optional<MultiprocessorLimits> limits_of(std::uint32_t compute_major,
                                              std::uint32_t compute_minor) {
  for (const Capability& row : kCapabilities) {
    if (row.major != compute_major || row.minor != compute_minor) continue;
    MultiprocessorLimits limits;
    limits.threads = row.threads;
    limits.blocks = row.blocks;
    limits.registers = 64 * kKiB;
    limits.registers_per_block = row.registers_per_block * kKiB;
    limits.registers_per_thread = row.major < 7 ? 255 : 256;
    limits.partitions = row.major == 6 && row.minor == 0 ? 2 : 4;
    limits.shared_bytes = row.shared * kKiB;
    limits.shared_per_block_bytes = 48 * kKiB;
    limits.shared_per_block_opt_in_bytes = row.shared_opt_in * kKiB;
    limits.shared_reserved_bytes = row.major >= 8 ? kKiB : 0;
    limits.shared_granularity_bytes = row.major >= 8 ? 128 : 256;
    return limits;
  }
  return std::nullopt;
}

SharedLimit shared_limit_of_launched(const model::Kernel& kernel,
                                     const MultiprocessorLimits& limits) {
  const std::uint64_t shared =
      std::uint64_t{kernel.static_shared_bytes} + kernel.dynamic_shared_bytes;
  return shared > limits.shared_per_block_bytes ? SharedLimit::opt_in : SharedLimit::standard;
}

std::uint64_t threads_per_block(const model::Kernel& kernel) {
  return std::uint64_t{kernel.block[0]} * kernel.block[1] * kernel.block[2];
}

std::optional<Occupancy> theoretical_occupancy(const model::Kernel& kernel,
                                               const MultiprocessorLimits& limits,
                                               SharedLimit shared_limit) {
  const std::uint64_t threads = threads_per_block(kernel);
  if (threads == 0 || kernel.registers_per_thread == 0) return std::nullopt;
  const std::uint64_t warps = (threads + kWarp - 1) / kWarp;
  const std::uint64_t possible_warps = limits.threads / kWarp;
  const std::uint64_t by_warps = possible_warps / warps;
  const std::uint64_t by_registers =
      blocks_by_registers(kernel.registers_per_thread, warps, limits);
  const std::uint64_t by_shared = blocks_by_shared_memory(kernel, limits, shared_limit);
  const std::uint64_t blocks =
      std::min({by_warps, std::uint64_t{limits.blocks}, by_registers, by_shared});
  Occupancy occupancy;
  occupancy.blocks = static_cast<std::uint32_t>(blocks);
  occupancy.ratio = static_cast<double>(blocks * warps) / static_cast<double>(possible_warps);
  occupancy.by_warps = blocks == by_warps;
  occupancy.by_blocks = blocks == limits.blocks;
  occupancy.by_registers = blocks == by_registers;
  occupancy.by_shared_memory = blocks == by_shared;
  return occupancy;
}

std::optional<double> blocks_per_multiprocessor(const model::Kernel& kernel,
                                                std::uint32_t multiprocessors) {
  const double blocks = static_cast<double>(kernel.grid[0]) * kernel.grid[1] * kernel.grid[2];
  if (blocks == 0 || multiprocessors == 0) return std::nullopt;
  return blocks / multiprocessors;
}

}  // namespace gpuidle::analysis
