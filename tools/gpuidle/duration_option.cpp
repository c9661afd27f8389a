// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/duration_option.h"

#include <cstdlib>

namespace gpuidle::cli {

base::Result<std::int64_t> parse_duration(const std::string& text) {
  const base::Status bad(base::StatusCode::invalid_argument,
                         "'" + text + "' is not a time with a unit, such as 500ms, 30s, 5m or 2h");
  const std::size_t digits = text.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string::npos) return bad;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + digits) return bad;
  struct Unit {
    const char* name;
    double ns;
  };
  constexpr Unit kUnits[] = {{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
  constexpr double kLongest_ns = 365.0 * 24 * 3600e9;
  for (const Unit& unit : kUnits) {
    if (text.substr(digits) != unit.name) continue;
    const double ns = number * unit.ns;
    if (ns < 1.0 || ns > kLongest_ns) return bad;
    return static_cast<std::int64_t>(ns);
  }
  return bad;
}

}  // namespace gpuidle::cli
