// SPDX-License-Identifier: Apache-2.0
//
// Names come from untrusted files and may hold any bytes; what is shown or written must be UTF-8.
// Feeds the JSON writer and the text reports.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuidle::report {

/// Bytes of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none. Overlong
/// forms, surrogates and values past U+10FFFF are not well-formed (Unicode, table 3-7).
std::size_t utf8_length(std::string_view text);

}  // namespace gpuidle::report
