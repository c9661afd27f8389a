// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/decimal_time.h"

#include <limits>

namespace gpuidle::import {
namespace {

constexpr std::int64_t kDigitsToNanoseconds = 3;
constexpr std::uint64_t kMaxValue = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxExponent =
    1'000'000;  // far beyond any time; keeps sums from overflowing

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Decimal {
  std::string_view digits;  // with at most one '.' among them
  std::int64_t point = 0;   // digits before the decimal point, after scaling to nanoseconds
  bool is_negative = false;
};

std::optional<std::int64_t> parse_exponent(std::string_view text) {
  const bool is_negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
    if (value < kMaxExponent) value = value * 10 + (c - '0');
  }
  return is_negative ? -value : value;
}

std::optional<Decimal> split(std::string_view token) {
  Decimal decimal;
  if (!token.empty() && (token[0] == '-' || token[0] == '+')) {
    decimal.is_negative = token[0] == '-';
    token.remove_prefix(1);
  }
  std::size_t length = 0, integer_digits = 0, all_digits = 0;
  bool has_point = false;
  for (; length < token.size(); ++length) {
    if (is_digit(token[length])) {
      ++all_digits;
      if (!has_point) ++integer_digits;
    } else if (token[length] == '.' && !has_point) {
      has_point = true;
    } else {
      break;
    }
  }
  if (all_digits == 0) return std::nullopt;
  decimal.digits = token.substr(0, length);
  decimal.point = static_cast<std::int64_t>(integer_digits) + kDigitsToNanoseconds;
  if (length < token.size()) {
    if (token[length] != 'e' && token[length] != 'E') return std::nullopt;
    const auto exponent = parse_exponent(token.substr(length + 1));
    if (!exponent) return std::nullopt;
    decimal.point += *exponent;
  }
  return decimal;
}

// False if `value` would pass int64.
bool append_digit(std::uint64_t& value, std::uint64_t digit) {
  if (value > (kMaxValue - digit) / 10) return false;
  value = value * 10 + digit;
  return true;
}

}  // namespace

std::optional<std::int64_t> nanoseconds_of_microseconds(std::string_view token) {
  const auto decimal = split(token);
  if (!decimal) return std::nullopt;
  std::uint64_t value = 0;
  std::int64_t position = 0;
  for (const char c : decimal->digits) {
    if (c == '.') continue;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (position < decimal->point) {
      if (!append_digit(value, digit)) return std::nullopt;
    } else {
      const bool is_rounded_up = position == decimal->point && digit >= 5;
      if (is_rounded_up && value == kMaxValue) return std::nullopt;
      if (is_rounded_up) ++value;
      break;
    }
    ++position;
  }
  for (; value != 0 && position < decimal->point; ++position) {
    if (!append_digit(value, 0)) return std::nullopt;
  }
  const auto signed_value = static_cast<std::int64_t>(value);
  return decimal->is_negative ? -signed_value : signed_value;
}

}  // namespace gpuidle::import
