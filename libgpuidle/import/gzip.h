// SPDX-License-Identifier: Apache-2.0
//
// Unpacks gzip files into memory (libdeflate: about three times as fast as zlib). Fed by
// open_recording(), feeds the JSON readers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libgpuidle/base/status.h"
#include "libgpuidle/import/padded_text.h"

namespace gpuidle::import {

/// True if the bytes begin like a gzip member.
bool is_gzip(std::string_view bytes);

/// What a file may expand to: recordings shrink 10 to 40 times, so far more than that is an
/// accident or an attack.
struct GunzipLimits {
  std::uint64_t max_bytes = (std::uint64_t{4} << 30) - 4096;  ///< simdjson's limit for one document
  std::uint64_t max_ratio = 300;
  std::uint64_t free_bytes = 64 << 20;  ///< allowed whatever the ratio
};

/// Unpacks all members of a gzip file; `path` is for messages only. Zero bytes after the last
/// member are padding and ignored. Errors: corrupt (damaged, cut off, or beyond the limits),
/// io_error (no memory).
/// Context: tool.
base::Result<PaddedText> gunzip(std::string_view bytes, const std::string& path,
                                const GunzipLimits& limits = {});

}  // namespace gpuidle::import
