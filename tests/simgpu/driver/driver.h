// SPDX-License-Identifier: Apache-2.0
// What the files of the driver share. DRV(cuX) names the implementation of cuX; the exported
// function, with callbacks and per-thread stream variant, is generated around it.
#pragma once

#include "device/cuda_api.h"
#include "device/device.h"
#include "driver_impl.h"

#define DRV(name) impl_##name

namespace simgpu {

/// The current context, or the error that its absence is.
inline CUresult need_context(Context** context) {
  if (!initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  *context = current_context();
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return (*context)->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

#define SIMGPU_TRY(expression)                         \
  do {                                                 \
    CUresult try_result = (expression);                \
    if (try_result != CUDA_SUCCESS) return try_result; \
  } while (false)

#define SIMGPU_CONTEXT(variable) \
  Context* variable = nullptr;   \
  SIMGPU_TRY(need_context(&variable))

#define SIMGPU_STREAM(variable, handle) \
  Stream* variable = nullptr;           \
  SIMGPU_TRY(to_stream(handle, &variable))

/// Properties of the device by CUdevice_attribute; 0 for those a simulation has no use for.
int device_attribute(int attribute, int ordinal);

}  // namespace simgpu
