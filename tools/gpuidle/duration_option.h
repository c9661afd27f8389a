// SPDX-License-Identifier: Apache-2.0
//
// Times on the command line: a number and its unit, "500ms", "30s", "1.5m". Fed by the commands
// that wait.
#pragma once

#include <cstdint>
#include <string>

#include "libgpuidle/base/status.h"

namespace gpuidle::cli {

/// Nanoseconds. Errors: invalid_argument; the number must be positive, at most 365 days.
base::Result<std::int64_t> parse_duration(const std::string& text);

}  // namespace gpuidle::cli
