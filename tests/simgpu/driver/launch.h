// SPDX-License-Identifier: Apache-2.0
// Kernel launches as work: for streams (launch.cpp) and for graph nodes (graph.cpp).
#pragma once

#include "device/cuda_api.h"
#include "device/module.h"
#include "device/schedule.h"

namespace simgpu {

/// Checks the shape of a launch as the driver does.
CUresult check_launch(const Kernel* kernel, const uint32_t (&grid)[3], const uint32_t (&block)[3],
                      uint32_t shared_bytes);
Work kernel_work(Kernel* kernel, const uint32_t (&grid)[3], const uint32_t (&block)[3],
                 uint32_t shared_bytes);

/// Name for callbacks.
const char* launch_symbol(CUfunction function);

}  // namespace simgpu
