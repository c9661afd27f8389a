// SPDX-License-Identifier: Apache-2.0
//
// What a JSON string token stands for. Tokens stay views into the file until a name is kept.
#pragma once

#include <string>
#include <string_view>

namespace gpuidle::import {

/// A string token (without its quotes) with its escapes resolved to UTF-8; a bad escape becomes
/// '?'.
std::string unescaped(std::string_view token);

}  // namespace gpuidle::import
