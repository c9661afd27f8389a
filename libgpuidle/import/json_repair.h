// SPDX-License-Identifier: Apache-2.0
//
// Makes a damaged trace readable: bytes that are not UTF-8, control characters inside strings, a
// file that was cut off while it was written. The slow path of the Kineto importer, taken only
// after the JSON parser has refused the text as it is.
#pragma once

#include <cstddef>

#include "libgpuidle/import/padded_text.h"

namespace gpuidle::import {

/// What was changed; all zero and false: nothing that can be mended was found.
struct JsonRepair {
  std::size_t bad_bytes = 0;      ///< not UTF-8 or a control character in a string: made '?'
  bool is_cut_off = false;        ///< brackets or a string were open at the end
  std::size_t dropped_bytes = 0;  ///< behind the last whole row of a text that was cut off
};

/// Rewrites `text` in place, without changing the offset of any byte that is kept. A text that was
/// cut off ends after its last whole row (an element of the root array or of an array in the root
/// object) and its brackets are closed. One pass, about 300 MB/s.
JsonRepair repair_json(PaddedText& text);

}  // namespace gpuidle::import
