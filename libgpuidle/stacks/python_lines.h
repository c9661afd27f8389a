// SPDX-License-Identifier: Apache-2.0
//
// From the position in a code object to the line of source: decoders of CPython's three kinds of
// line tables. Fed by the code table's copies, asked by the drain thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libgpuidle/stacks/python_layouts.h"

namespace gpuidle::stacks {

/// Line of the instruction at byte `position` of the code; 0 = the table gives it none. A position
/// before the first instruction means the frame has not begun: `first_line`. A table that ends in
/// the middle of an entry gives what stood before. Context: drain.
std::uint32_t python_line(LineTable format, const unsigned char* table, std::size_t table_bytes,
                          std::int32_t first_line, std::int32_t position);

}  // namespace gpuidle::stacks
