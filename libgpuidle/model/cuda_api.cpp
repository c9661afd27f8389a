// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/model/cuda_api.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace gpuidle::model {
namespace {

constexpr CudaApi kHipApis[] = {
    // HIP calls whose CUDA counterpart is not found by replacing the prefix.
    {"hipExtLaunchKernel", ApiRole::launch},
    {"hipExtLaunchMultiKernelMultiDevice", ApiRole::launch},
    {"hipExtModuleLaunchKernel", ApiRole::launch},
    {"hipHccModuleLaunchKernel", ApiRole::launch},
    {"hipLaunchByPtr", ApiRole::launch},
    {"hipModuleLaunchKernel", ApiRole::launch},
    {"hipModuleLaunchKernelEx", ApiRole::launch},
    {"hipModuleLaunchCooperativeKernel", ApiRole::launch},
    {"hipModuleLaunchCooperativeKernelMultiDevice", ApiRole::launch},
    {"hipDrvMemcpy3D", ApiRole::copy_blocking},
    {"hipDrvMemcpy3DAsync", ApiRole::copy},
    {"hipMemcpyParam2D", ApiRole::copy_blocking},
    {"hipMemcpyParam2DAsync", ApiRole::copy},
    {"hipMemcpyWithStream", ApiRole::copy_blocking},
    {"hipExtMallocWithFlags", ApiRole::alloc},
    {"hipHostMalloc", ApiRole::alloc},
    {"hipHostFree", ApiRole::free},
};
constexpr std::size_t kCudaCount = std::size(kCudaApis);
constexpr std::size_t kRowCount = kCudaCount + std::size(kHipApis);

constexpr const CudaApi& row_at(std::size_t row) {
  return row < kCudaCount ? kCudaApis[row] : kHipApis[row - kCudaCount];
}

// Open addressing, at most half full, so that a probe for an unknown name ends soon.
constexpr std::size_t kSlotCount = 512;
static_assert(kRowCount * 2 <= kSlotCount, "double kSlotCount: cuda_api.def has grown");
using Slots = std::array<std::uint16_t, kSlotCount>;  // row + 1, 0 = free

constexpr std::size_t slot_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return (hash ^ (hash >> 16)) % kSlotCount;
}

constexpr Slots make_slots() {
  Slots slots{};
  for (std::size_t row = 0; row < kRowCount; ++row) {
    std::size_t slot = slot_of(row_at(row).name);
    while (slots[slot] != 0) slot = (slot + 1) % kSlotCount;
    slots[slot] = static_cast<std::uint16_t>(row + 1);
  }
  return slots;
}
constexpr Slots kSlots = make_slots();

ApiRole role_in_table(std::string_view name) {
  for (std::size_t slot = slot_of(name); kSlots[slot] != 0; slot = (slot + 1) % kSlotCount) {
    const CudaApi& row = row_at(kSlots[slot] - 1);
    if (row.name == name) return row.role;
  }
  return ApiRole::other;
}

// The role of `prefix` followed by `rest`, put together without the heap.
ApiRole role_with_prefix(std::string_view prefix, std::string_view rest) {
  char name[80];
  if (prefix.size() + rest.size() > sizeof(name)) return ApiRole::other;
  std::memcpy(name, prefix.data(), prefix.size());
  std::memcpy(name + prefix.size(), rest.data(), rest.size());
  return role_in_table({name, prefix.size() + rest.size()});
}

}  // namespace

ApiRole role_of(std::string_view call_name) noexcept {
  const std::string_view name = without_variant(call_name);
  const ApiRole role = role_in_table(name);
  if (role != ApiRole::other || name.substr(0, 3) != "hip") return role;
  const std::string_view rest = name.substr(3);
  const ApiRole runtime_role = role_with_prefix("cuda", rest);
  return runtime_role != ApiRole::other ? runtime_role : role_with_prefix("cu", rest);
}

}  // namespace gpuidle::model
