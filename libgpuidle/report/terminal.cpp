// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/terminal.h"

#include <unistd.h>

#include <cstdlib>

namespace gpuidle::report {

bool wants_color(ColorMode mode) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return isatty(STDOUT_FILENO) == 1;
}

}  // namespace gpuidle::report
