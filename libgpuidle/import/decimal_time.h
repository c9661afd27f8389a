// SPDX-License-Identifier: Apache-2.0
//
// Decimal microseconds, as they are written in foreign traces, become integer nanoseconds without
// passing through a double: 1712195495406752.800 has more digits than a double keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuidle::import {

/// The nanoseconds that a JSON number token (or the text of a string) in microseconds stands for:
/// optional sign, digits, fraction, exponent. Digits below a nanosecond are rounded, half away from
/// zero. nullopt: not such a number (NaN, Infinity, null, text), or beyond int64.
std::optional<std::int64_t> nanoseconds_of_microseconds(std::string_view token);

}  // namespace gpuidle::import
