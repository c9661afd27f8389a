// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/trace_format.h"

#include <cstring>

#include "libgpuidle/trace/crc32c.h"

namespace gpuidle::trace {
namespace {

// Byte by byte, so that neither the host's byte order nor its alignment rules matter.
class Storer {
 public:
  explicit Storer(std::uint8_t* out) : out_(out) {}
  template <typename Integer>
  Storer& put(Integer value) {
    const auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(Integer); ++i) {
      *out_++ = static_cast<std::uint8_t>(bits >> (8 * i));
    }
    return *this;
  }
  Storer& put(const std::uint8_t* bytes, std::size_t count) {
    std::memcpy(out_, bytes, count);
    out_ += count;
    return *this;
  }

 private:
  std::uint8_t* out_;
};

class Loader {
 public:
  explicit Loader(const std::uint8_t* in) : in_(in) {}
  template <typename Integer>
  Integer take() {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(Integer); ++i) bits |= std::uint64_t{*in_++} << (8 * i);
    return static_cast<Integer>(bits);
  }

 private:
  const std::uint8_t* in_;
};

constexpr std::size_t kCrcBytes = 4;

bool ends_with_crc(const std::uint8_t* bytes, std::size_t count) {
  return Loader(bytes + count - kCrcBytes).take<std::uint32_t>() ==
         crc32c(bytes, count - kCrcBytes);
}

}  // namespace

bool ChunkHeader::operator==(const ChunkHeader& o) const {
  return kind == o.kind && flags == o.flags && payload_bytes == o.payload_bytes &&
         uncompressed_bytes == o.uncompressed_bytes && record_count == o.record_count &&
         launch_count == o.launch_count && payload_crc == o.payload_crc &&
         min_start_ns == o.min_start_ns && max_end_ns == o.max_end_ns;
}

void store_file_header(const FileHeader& header, std::uint8_t* out) {
  Storer storer(out);
  storer.put(kFileMagic, sizeof kFileMagic)
      .put(header.header_bytes)
      .put(header.major)
      .put(header.minor)
      .put(header.byte_order_mark)
      .put(header.pid)
      .put(header.features)
      .put(header.monotonic_start_ns)
      .put(header.realtime_start_ns)
      .put(std::uint32_t{0});
  storer.put(crc32c(out, kFileHeaderBytes - kCrcBytes));
}

void store_chunk_header(const ChunkHeader& header, std::uint8_t* out) {
  Storer storer(out);
  storer.put(kChunkMark)
      .put(static_cast<std::uint16_t>(header.kind))
      .put(header.flags)
      .put(header.payload_bytes)
      .put(header.uncompressed_bytes)
      .put(header.record_count)
      .put(header.launch_count)
      .put(header.payload_crc)
      .put(header.min_start_ns)
      .put(header.max_end_ns);
  storer.put(crc32c(out, kChunkHeaderBytes - kCrcBytes));
}

void store_trailer(std::uint64_t footer_offset, std::uint8_t* out) {
  Storer storer(out);
  storer.put(footer_offset).put(std::uint32_t{0}).put(kTrailerMagic, sizeof kTrailerMagic);
  storer.put(crc32c(out, kTrailerBytes - kCrcBytes));
}

FileHeader load_file_header(const std::uint8_t* bytes) {
  Loader loader(bytes + sizeof kFileMagic);
  FileHeader header;
  header.header_bytes = loader.take<std::uint32_t>();
  header.major = loader.take<std::uint16_t>();
  header.minor = loader.take<std::uint16_t>();
  header.byte_order_mark = loader.take<std::uint32_t>();
  header.pid = loader.take<std::uint32_t>();
  header.features = loader.take<std::uint64_t>();
  header.monotonic_start_ns = loader.take<std::int64_t>();
  header.realtime_start_ns = loader.take<std::int64_t>();
  return header;
}

bool has_valid_file_header_crc(const std::uint8_t* bytes, std::size_t header_bytes) {
  return ends_with_crc(bytes, header_bytes);
}

bool load_chunk_header(const std::uint8_t* bytes, ChunkHeader* out) {
  Loader loader(bytes);
  if (loader.take<std::uint32_t>() != kChunkMark) return false;
  if (!ends_with_crc(bytes, kChunkHeaderBytes)) return false;
  out->kind = static_cast<ChunkKind>(loader.take<std::uint16_t>());
  out->flags = loader.take<std::uint16_t>();
  out->payload_bytes = loader.take<std::uint32_t>();
  out->uncompressed_bytes = loader.take<std::uint32_t>();
  out->record_count = loader.take<std::uint32_t>();
  out->launch_count = loader.take<std::uint32_t>();
  out->payload_crc = loader.take<std::uint32_t>();
  out->min_start_ns = loader.take<std::int64_t>();
  out->max_end_ns = loader.take<std::int64_t>();
  return true;
}

bool load_trailer(const std::uint8_t* bytes, std::uint64_t* footer_offset) {
  constexpr std::size_t kMagicAt = 12;
  if (std::memcmp(bytes + kMagicAt, kTrailerMagic, sizeof kTrailerMagic) != 0) return false;
  if (!ends_with_crc(bytes, kTrailerBytes)) return false;
  *footer_offset = Loader(bytes).take<std::uint64_t>();
  return true;
}

bool has_sane_sizes(const ChunkHeader& header) {
  const bool is_compressed = (header.flags & kChunkCompressed) != 0;
  const std::uint64_t allowed =
      is_compressed
          ? kFreeUncompressedBytes + std::uint64_t{header.payload_bytes} * kMaxCompressionRatio
          : header.payload_bytes;
  return header.payload_bytes > 0 && header.payload_bytes <= kMaxChunkBytes &&
         header.uncompressed_bytes <= kMaxChunkBytes && header.uncompressed_bytes <= allowed &&
         (is_compressed || header.uncompressed_bytes == header.payload_bytes) &&
         header.record_count <= header.uncompressed_bytes &&
         header.record_count <= kMaxRecordsPerChunk && header.launch_count <= header.record_count &&
         header.min_start_ns <= header.max_end_ns && header.min_start_ns >= -kMaxTime_ns &&
         header.max_end_ns <= kMaxTime_ns;
}

const char* name_of(ChunkKind kind) {
  switch (kind) {
    case ChunkKind::info:
      return "info";
    case ChunkKind::tables:
      return "tables";
    case ChunkKind::activities:
      return "activities";
    case ChunkKind::calls:
      return "calls";
    case ChunkKind::markers:
      return "markers";
    case ChunkKind::overheads:
      return "overheads";
    case ChunkKind::unobserved:
      return "unobserved";
    case ChunkKind::gaps:
      return "gaps";
    case ChunkKind::losses:
      return "losses";
    case ChunkKind::footer:
      return "footer";
    case ChunkKind::samples:
      return "samples";
    case ChunkKind::unknown:
      break;
  }
  return "unknown";
}

}  // namespace gpuidle::trace
