// SPDX-License-Identifier: Apache-2.0
//
// How many blocks of a kernel fit on one multiprocessor at a time, from its launch shape and the
// device's compute capability: NVIDIA's occupancy rules, as cuda_occupancy.h applies them, for
// recordings that are read on another machine. Used by the analysis of how full a device was.
#pragma once

#include <cstdint>
#include <optional>

#include "libgpuidle/model/tables.h"

namespace gpuidle::analysis {

/// What one multiprocessor (SM) offers.
struct MultiprocessorLimits {
  std::uint32_t threads = 0;
  std::uint32_t blocks = 0;
  std::uint32_t registers = 0;
  std::uint32_t registers_per_block = 0;
  std::uint32_t registers_per_thread = 0;
  std::uint32_t partitions = 0;              ///< schedulers, each with its part of the registers
  std::uint32_t shared_bytes = 0;            ///< with the largest carve-out
  std::uint32_t shared_per_block_bytes = 0;  ///< what every kernel may use
  std::uint32_t shared_per_block_opt_in_bytes = 0;  ///< what a kernel may ask for explicitly
  std::uint32_t shared_reserved_bytes = 0;          ///< per block, by the driver
  std::uint32_t shared_granularity_bytes = 0;
};

/// Empty for compute capabilities that are not known here (before 5.0, AMD's, future ones).
std::optional<MultiprocessorLimits> limits_of(std::uint32_t compute_major,
                                              std::uint32_t compute_minor);

/// Which limit on a block's shared memory applies to a kernel.
enum class SharedLimit : std::uint8_t {
  standard,
  opt_in,  ///< the program raised the kernel's limit (cudaFuncSetAttribute)
};

/// The limit under which a kernel that did run must have run: more than the standard limit is
/// refused unless the program opted in. (Taking the standard one for all, as PyTorch's profiler
/// does, gives large matrix kernels an occupancy of 0.)
SharedLimit shared_limit_of_launched(const model::Kernel& kernel,
                                     const MultiprocessorLimits& limits);

struct Occupancy {
  std::uint32_t blocks = 0;  ///< resident per SM at most; 0 = such a launch fails
  double ratio = 0;          ///< resident warps of the possible ones, 0..1
  /// What keeps further blocks out; several may.
  bool by_warps = false, by_blocks = false, by_registers = false, by_shared_memory = false;
};

/// Theoretical occupancy. Empty if the block's size or the registers are not known (0).
std::optional<Occupancy> theoretical_occupancy(const model::Kernel& kernel,
                                               const MultiprocessorLimits& limits,
                                               SharedLimit shared_limit);

/// Blocks of the grid for each of `multiprocessors`; empty if either is not known.
std::optional<double> blocks_per_multiprocessor(const model::Kernel& kernel,
                                                std::uint32_t multiprocessors);

/// Threads in one block, 0 = not known.
std::uint64_t threads_per_block(const model::Kernel& kernel);

}  // namespace gpuidle::analysis
