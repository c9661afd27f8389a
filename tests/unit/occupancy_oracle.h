// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's occupancy calculator (cuda_occupancy.h of the toolkit, host code only) as the oracle of
// the occupancy tests. The device properties are those that cudaGetDeviceProperties gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "libgpuidle/model/tables.h"

namespace gpuidle::tests {

struct OracleDevice {
  std::uint32_t major, minor, threads;
  std::size_t shared, shared_opt_in;  // KiB per multiprocessor, per block
};
inline constexpr OracleDevice kOracleDevices[] = {
    {5, 0, 2048, 64, 48},    {5, 2, 2048, 96, 48},    {6, 0, 2048, 64, 48},
    {6, 1, 2048, 96, 48},    {7, 0, 2048, 96, 96},    {7, 2, 2048, 96, 96},
    {7, 5, 1024, 64, 64},    {8, 0, 2048, 164, 163},  {8, 6, 1536, 100, 99},
    {8, 7, 1536, 164, 163},  {8, 9, 1536, 100, 99},   {9, 0, 2048, 228, 227},
    {10, 0, 2048, 228, 227}, {10, 1, 1536, 228, 227}, {10, 3, 2048, 228, 227},
    {11, 0, 1536, 228, 227}, {12, 0, 1536, 100, 99},  {12, 1, 1536, 100, 99}};

/// Active blocks per multiprocessor.
std::uint32_t oracle_blocks(const OracleDevice& device, const model::Kernel& kernel,
                            bool is_opt_in);

}  // namespace gpuidle::tests
