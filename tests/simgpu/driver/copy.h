// SPDX-License-Identifier: Apache-2.0
// Copies and fills as work: for streams (copy.cpp) and for graph nodes (graph.cpp).
#pragma once

#include "device/cuda_api.h"
#include "device/schedule.h"

namespace simgpu {

Transfer linear(void* destination, const void* source, size_t bytes);
Transfer from_params(const CUDA_MEMCPY3D& params);
Transfer filled(CUdeviceptr destination, size_t pitch, unsigned value, unsigned element_bytes,
                size_t width, size_t height);

Work copy_work(const Transfer& transfer, Context* context, bool async);
Work set_work(const Transfer& transfer, bool async);

}  // namespace simgpu
