// SPDX-License-Identifier: Apache-2.0
//
// A trace file as a list of checked chunks: knows headers, checksums and compression, nothing of
// what the chunks say. Reads with pread, because the file may grow or shrink meanwhile and a
// shrinking mapping kills. Feeds the trace reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libgpuidle/base/status.h"
#include "libgpuidle/trace/trace_format.h"

struct ZSTD_DCtx_s;

namespace gpuidle::trace {

/// The payload of one chunk, inflated; reused from chunk to chunk.
class ChunkBuffers {
 public:
  ChunkBuffers();
  ~ChunkBuffers();
  /// A size-prefixed flatbuffer whose prefix matches; not yet verified beyond that.
  const std::uint8_t* bytes() const { return bytes_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  friend class ChunkFile;
  std::vector<std::uint8_t> in_file_;
  std::vector<std::uint8_t> inflated_;
  ZSTD_DCtx_s* zstd_;
  const std::uint8_t* bytes_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// Context: tool. load() may be called from several threads with buffers of their own.
class ChunkFile {
 public:
  struct Entry {
    ChunkHeader header;
    std::uint64_t offset = 0;  ///< of the chunk header in the file
  };

  /// Opens the file, checks its header and lists its chunks, by the footer's index or by walking
  /// from chunk to chunk. Errors: as open_trace().
  static base::Result<std::unique_ptr<ChunkFile>> open(const std::string& path);
  ~ChunkFile();

  const std::string& path() const { return path_; }
  const FileHeader& header() const { return header_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// All chunks that were whole when the file was opened, the footer included.
  const std::vector<Entry>& chunks() const { return chunks_; }
  bool has_footer() const { return has_footer_; }
  /// True if the chunks were listed from the index, false if by walking.
  bool has_index() const { return has_index_; }
  /// Ok, or which bytes after the last listed chunk contradict the format.
  const base::Status& damage() const { return damage_; }
  /// What is odd and harmless: a torn tail, bytes after the footer. One line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Reads, checks and inflates one chunk. Errors: io_error, truncated, corrupt; the message names
  /// file, chunk, offset, what was expected and what was found.
  base::Status load(std::size_t chunk, ChunkBuffers* buffers) const;
  /// The same wording for what a decoder finds wrong inside a chunk.
  base::Status corrupt_chunk(std::size_t chunk, const std::string& problem) const;

 private:
  ChunkFile(int fd, std::string path, std::uint64_t size_bytes);
  base::Status read_header();
  base::Status check_version() const;
  bool list_by_index();
  void list_by_walking();
  void check_trailer(std::uint64_t offset);
  bool read_at(std::uint64_t offset, std::uint8_t* out, std::size_t count) const;
  bool is_zero_from(std::uint64_t offset) const;
  base::Status load(const Entry& entry, std::size_t number, ChunkBuffers* buffers) const;
  base::Status fail(base::StatusCode code, const std::string& what) const;
  base::Status fail_chunk(base::StatusCode code, const Entry& entry, std::size_t number,
                          const std::string& problem) const;

  int fd_;
  std::string path_;
  std::uint64_t size_bytes_;
  FileHeader header_;
  std::vector<Entry> chunks_;
  bool has_footer_ = false;
  bool has_index_ = false;
  base::Status damage_;
  std::vector<std::string> warnings_;
};

}  // namespace gpuidle::trace
