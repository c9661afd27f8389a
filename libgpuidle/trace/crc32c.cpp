// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace gpuidle::trace {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ kReversedPolynomial : crc >> 1;
    }
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(const std::uint8_t* bytes,
                                                             std::size_t count) {
  std::uint64_t crc = 0xffffffff;
  for (; count >= 8; count -= 8, bytes += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    crc = _mm_crc32_u64(crc, word);
  }
  auto crc32 = static_cast<std::uint32_t>(crc);
  for (; count > 0; --count) crc32 = _mm_crc32_u8(crc32, *bytes++);
  return ~crc32;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(const std::uint8_t* bytes, std::size_t count) {
  std::uint32_t crc = 0xffffffff;
  for (std::size_t i = 0; i < count; ++i) crc = (crc >> 8) ^ kTable[(crc ^ bytes[i]) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(const std::uint8_t* bytes, std::size_t count) {
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) return crc32c_sse42(bytes, count);
#endif
  return crc32c_portable(bytes, count);
}

}  // namespace gpuidle::trace
