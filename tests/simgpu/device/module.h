// SPDX-License-Identifier: Apache-2.0
// Loaded device code: names and properties of kernels and variables, read from fat binaries, cubins
// or PTX text. An image that cannot be read ("any name" image) has every kernel one asks for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"

namespace simgpu {

struct Library;

struct Kernel {
  uint32_t magic = 0x4b45524e;
  const char* name = nullptr;
  Library* library = nullptr;
  int64_t duration_ns = 0;
  uint32_t registers = 32;
  uint32_t static_shared_bytes = 0;
  uint32_t max_dynamic_shared_bytes = 48 * 1024;
  int carveout = -1;
  std::vector<uint32_t> parameter_offsets;
  std::vector<uint32_t> parameter_sizes;
};

struct Variable {
  size_t bytes = 0;
  bool managed = false;
  std::string initial;  // empty: zeros
  void* address = nullptr;
};

struct Library {
  uint32_t magic = 0x4c494252;
  bool any_name = false;
  int sm = 75;
  std::map<std::string, Kernel*> kernels;
  std::map<std::string, Variable> variables;
};

/// Null for an image of no known form.
Library* load_image(const void* image);
Library* to_library(const void* handle);
Kernel* to_kernel(const void* handle);
Kernel* find_kernel(Library* library, const std::string& name);
Variable* find_variable(Context* context, Library* library, const std::string& name);

}  // namespace simgpu
