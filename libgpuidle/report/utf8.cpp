// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/utf8.h"

namespace gpuidle::report {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto is_tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool is_overlong = first == 0xE0 && second < 0xA0;
    const bool is_surrogate = first == 0xED && second > 0x9F;
    return is_tail(1) && is_tail(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool is_overlong = first == 0xF0 && second < 0x90;
    const bool is_too_high = first == 0xF4 && second > 0x8F;
    return is_tail(1) && is_tail(2) && is_tail(3) && !is_overlong && !is_too_high ? 4 : 0;
  }
  return 0;
}

}  // namespace gpuidle::report
