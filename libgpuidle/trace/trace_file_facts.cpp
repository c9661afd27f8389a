// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/trace_file_facts.h"

#include <array>
#include <memory>

#include "libgpuidle/trace/chunk_file.h"

namespace gpuidle::trace {

base::Result<TraceFileFacts> read_file_facts(const std::string& path) {
  const base::Result<std::unique_ptr<ChunkFile>> file = ChunkFile::open(path);
  if (!file.ok()) return file.status();
  TraceFileFacts facts;
  facts.file_bytes = file.value()->size_bytes();
  facts.has_index = file.value()->has_index();
  std::array<ChunkKindFacts, kChunkKindCount> kinds;
  for (const ChunkFile::Entry& entry : file.value()->chunks()) {
    const ChunkHeader& header = entry.header;
    const auto number = static_cast<std::size_t>(header.kind);
    ChunkKindFacts& kind = kinds[number < kinds.size() ? number : 0];
    kind.kind = name_of(header.kind);
    ++kind.chunk_count;
    kind.record_count += header.record_count;
    kind.stored_bytes += header.payload_bytes;
    kind.uncompressed_bytes += header.uncompressed_bytes;
  }
  for (ChunkKindFacts& kind : kinds) {
    if (kind.chunk_count > 0) facts.kinds.push_back(std::move(kind));
  }
  return facts;
}

}  // namespace gpuidle::trace
