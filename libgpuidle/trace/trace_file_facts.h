// SPDX-License-Identifier: Apache-2.0
//
// What a trace file is made of: chunks, sizes, compression. Only `gpuidle info` asks for it; the
// recording itself comes from open_trace().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libgpuidle/base/status.h"

namespace gpuidle::trace {

struct ChunkKindFacts {
  std::string kind;  ///< "activities", ...; "unknown" for those of later minors
  std::uint64_t chunk_count = 0;
  std::uint64_t record_count = 0;  ///< records, or rows of dictionaries
  std::uint64_t stored_bytes = 0;  ///< payload in the file, without chunk headers
  std::uint64_t uncompressed_bytes = 0;
};

struct TraceFileFacts {
  std::uint64_t file_bytes = 0;
  bool has_index = false;             ///< chunks were listed from the footer, not by walking
  std::vector<ChunkKindFacts> kinds;  ///< those that occur, in the order of their numbers
};

/// Reads headers only. Errors: as open_trace().
/// Context: tool.
base::Result<TraceFileFacts> read_file_facts(const std::string& path);

}  // namespace gpuidle::trace
