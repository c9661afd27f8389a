// SPDX-License-Identifier: Apache-2.0
//
// C++ names as people write them. Feeds the symbolizer, and the reports where they compare names of
// kernels with names of functions.
#pragma once

#include <string>
#include <string_view>

namespace gpuidle::symbols {

/// The name demangled and without its parameters; a name that is not mangled as it is.
std::string demangle(std::string_view mangled);

}  // namespace gpuidle::symbols
