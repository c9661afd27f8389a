// SPDX-License-Identifier: Apache-2.0
// How long a kernel takes: the first matching line of the SIMGPU_KERNELS file, or the default.
#pragma once

#include <cstdint>
#include <string>

namespace simgpu {

/// Duration of a kernel by its mangled or demangled name.
int64_t kernel_duration_ns(const std::string& name);

/// A string equal to `name` that is never freed.
const char* intern(const std::string& name);

}  // namespace simgpu
