// SPDX-License-Identifier: Apache-2.0
//
// Whether to use colour, and the two styles there are. Colour repeats what the text says already:
// a report reads the same without it.
#pragma once

#include <string>
#include <string_view>

namespace gpuidle::report {

enum class ColorMode { automatic, always, never };

/// automatic: stdout is a terminal, TERM is not "dumb", and NO_COLOR is unset or empty.
bool wants_color(ColorMode mode);

/// Marks text for a terminal, or leaves it as it is.
class Style {
 public:
  explicit Style(bool has_color) : has_color_(has_color) {}
  std::string heading(std::string_view text) const { return marked("\x1b[1m", text); }
  std::string warning(std::string_view text) const { return marked("\x1b[33m", text); }

 private:
  std::string marked(std::string_view code, std::string_view text) const {
    if (!has_color_) return std::string(text);
    return std::string(code).append(text).append("\x1b[0m");
  }
  bool has_color_;
};

}  // namespace gpuidle::report
