// SPDX-License-Identifier: Apache-2.0
//
// Turns records, dictionary rows and facts into the flatbuffers that chunks hold. Fed by the trace
// writer, which puts headers, checksums and compression around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/model/tables.h"
#include "libgpuidle/trace/trace_format.h"

namespace gpuidle::trace {

/// A size-prefixed flatbuffer and what the header of its chunk has to say about it.
struct EncodedChunk {
  ChunkHeader header;  ///< kind, counts and times; sizes and checksum are the writer's
  const std::uint8_t* bytes = nullptr;  ///< valid until the encoder is used again
  std::size_t size_bytes = 0;
  /// Ascending offsets at which the bytes change their nature; a compressor that adapts there
  /// needs a byte less per activity. Valid as long as `bytes`.
  const std::vector<std::size_t>* seams = nullptr;
};

/// How many rows of each dictionary are in the file.
struct TableProgress {
  std::size_t strings = 1, modules = 1, frames = 1, stacks = 1;
  std::size_t kernels = 1, threads = 1, apis = 1;  ///< row 0 is never written
};

/// May throw std::bad_alloc, nothing else. Not thread-safe. Context: drain | tool.
class ChunkEncoder {
 public:
  ChunkEncoder();
  ~ChunkEncoder();

  EncodedChunk encode(const model::RecordingInfo& info);
  EncodedChunk encode(const model::Losses& losses);

  /// Encodes rows that `progress` lacks, at most a chunk full, and moves `progress` on; call until
  /// is_complete(). `with_devices` adds all device rows.
  EncodedChunk encode_tables(const model::Tables& tables, bool with_devices,
                             TableProgress* progress);
  static bool is_complete(const model::Tables& tables, const TableProgress& progress);

  /// Each encodes `count` > 0 records that are sorted as Slice::sort() does.
  EncodedChunk encode(const model::DeviceActivity* records, std::size_t count);
  EncodedChunk encode(const model::ApiCall* records, std::size_t count);
  EncodedChunk encode(const model::Marker* records, std::size_t count);
  EncodedChunk encode(const model::Overhead* records, std::size_t count);
  EncodedChunk encode(const model::Unobserved* records, std::size_t count);
  EncodedChunk encode(const model::RecordedGap* records, std::size_t count);
  EncodedChunk encode(const model::ThreadSample* records, std::size_t count);

  /// The footer: loss ledger and the headers of all chunks before it (none: no index).
  EncodedChunk encode_footer(const model::Losses& losses, const ChunkHeader* chunks,
                             std::size_t chunk_count);

  struct State;  ///< for chunk_encoder_*.cpp alone

 private:
  std::unique_ptr<State> state_;
};

}  // namespace gpuidle::trace
