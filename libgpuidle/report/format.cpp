// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "libgpuidle/report/utf8.h"

namespace gpuidle::report {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Control characters of a hostile name would otherwise steer the terminal; in UTF-8 those of the
// second set, U+0080 to U+009F, start with C2.
std::string printable(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool is_control =
        length == 1 ? first < 0x20 || first == 0x7F
                    : length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0 || is_control) {
      clean += '?';
    } else {
      clean.append(text, 0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

constexpr std::string_view kDots = "...";

// `head` and `tail` columns of `text` with dots between, or all of it if `width` is enough.
std::string elided(std::string_view text, std::size_t width, std::size_t head, std::size_t tail) {
  const std::string clean = printable(text);
  const std::size_t columns = columns_of(clean);
  if (columns <= width) return clean;
  std::string shown;
  std::size_t column = 0;
  bool has_dots = false;
  for (const char c : clean) {
    if (!is_continuation(c)) ++column;
    if (column <= head || column > columns - tail) {
      shown += c;
    } else if (!has_dots) {
      shown += kDots;
      has_dots = true;
    }
  }
  return shown;
}

}  // namespace

std::string format_duration(std::int64_t ns) {
  struct Unit {
    double ns;
    const char* name;
  };
  static constexpr std::array<Unit, 3> kUnits = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}}};
  const double value_ns = static_cast<double>(ns);
  for (const Unit& unit : kUnits) {
    // 0.99995 would round to 1.000 of this unit, so that is where it begins.
    if (std::abs(value_ns) < 0.99995 * unit.ns) continue;
    const double value = value_ns / unit.ns;
    const int decimals = std::abs(value) < 9.9995 ? 3 : std::abs(value) < 99.995 ? 2 : 1;
    return fmt::format("{:.{}f} {}", value, decimals, unit.name);
  }
  return fmt::format("{} ns", ns);
}

std::string format_share(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "-";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part > 0 && percent < 0.05) return "<0.1 %";
  if (part < whole && percent >= 99.95) return ">99.9 %";
  return fmt::format("{:.1f} %", percent);
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string count_of(std::uint64_t count, std::string_view singular) {
  std::string plural(singular);
  if (count != 1) {
    if (!plural.empty() && plural.back() == 'y') {
      plural.replace(plural.size() - 1, 1, "ies");
    } else {
      plural += 's';
    }
  }
  return format_count(count) + " " + plural;
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char c : text) columns += is_continuation(c) ? 0 : 1;
  return columns;
}

std::string elide(std::string_view text, std::size_t width) {
  const std::size_t kept = width > kDots.size() ? width - kDots.size() : 0;
  return elided(text, width, (kept + 1) / 2, kept / 2);
}

std::string elide_front(std::string_view text, std::size_t width) {
  return elided(text, width, 0, width > kDots.size() ? width - kDots.size() : 0);
}

std::string wrap(std::string_view text, std::string_view first_indent, std::size_t indent) {
  std::string wrapped(first_indent);
  std::size_t column = columns_of(first_indent);
  bool is_line_start = true;
  while (!text.empty()) {
    // A number and its unit stay on one line.
    std::size_t end = text.find(' ');
    while (end != std::string_view::npos && end > 0 && is_digit(text[end - 1])) {
      end = text.find(' ', end + 1);
    }
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (word.empty()) continue;
    const std::string shown = printable(word);
    const std::size_t width = columns_of(shown);
    if (!is_line_start && column + 1 + width > kColumns) {
      wrapped += '\n';
      wrapped.append(indent, ' ');
      column = indent;
      is_line_start = true;
    }
    if (!is_line_start) {
      wrapped += ' ';
      ++column;
    }
    wrapped += shown;
    column += width;
    is_line_start = false;
  }
  wrapped += '\n';
  return wrapped;
}

}  // namespace gpuidle::report
