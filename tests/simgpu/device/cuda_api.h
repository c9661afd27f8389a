// SPDX-License-Identifier: Apache-2.0
// cuda.h with every version of every function under its own name, for use inside the driver.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
