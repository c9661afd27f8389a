// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a trace file around its flatbuffers: file header, chunk header, trailer, and the
// limits that a reader holds them to. One place for writer, reader and tests; schemas/README.md
// is the specification. Everything is little-endian, whatever the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuidle::trace {

/// 0x89 keeps a trace from being taken for text; the rest names it in a hex dump.
inline constexpr std::uint8_t kFileMagic[8] = {0x89, 'G', 'P', 'U', 'I', 'D', 'L', 'E'};
inline constexpr std::uint8_t kTrailerMagic[8] = {'E', 'L', 'D', 'I', 'U', 'P', 'G', 0x89};
inline constexpr std::uint16_t kFormatMajor = 1;
inline constexpr std::uint16_t kFormatMinor = 1;
inline constexpr std::uint32_t kByteOrderMark = 0x01020304;
inline constexpr std::uint32_t kChunkMark = 0x4b4e4843;  // "CHNK"

/// The file may hold chunks of samples.
inline constexpr std::uint64_t kHasSamples = 1;
/// Feature bits from here up must be known to whoever reads the file; lower ones may be ignored.
inline constexpr std::uint64_t kMustKnowFeatures = ~std::uint64_t{0} << 32;

inline constexpr std::size_t kFileHeaderBytes = 56;
inline constexpr std::size_t kMaxFileHeaderBytes = 4096;  ///< later minors may add fields
inline constexpr std::size_t kChunkHeaderBytes = 48;
inline constexpr std::size_t kTrailerBytes = 24;

/// What a chunk may claim before it is corrupt. The ratio bounds what a reader allocates for a
/// byte of a hostile file; the writer stores a chunk that would compress better than that as is.
inline constexpr std::uint32_t kMaxChunkBytes = 64u << 20;
inline constexpr std::uint32_t kMaxRecordsPerChunk = 1u << 20;
inline constexpr std::uint32_t kFreeUncompressedBytes = 4096;
inline constexpr std::uint32_t kMaxCompressionRatio = 64;

/// No time in a trace lies outside +-2^61 ns (73 years), so that differences of differences fit.
inline constexpr std::int64_t kMaxTime_ns = std::int64_t{1} << 61;

enum class ChunkKind : std::uint16_t {
  unknown = 0,
  info = 1,
  tables = 2,
  activities = 3,
  calls = 4,
  markers = 5,
  overheads = 6,
  unobserved = 7,
  gaps = 8,
  losses = 9,
  footer = 10,
  samples = 11,
};
inline constexpr std::uint16_t kChunkKindCount = 12;

inline constexpr std::uint16_t kChunkCompressed = 1;  ///< ChunkHeader::flags: a zstd frame

struct FileHeader {
  std::uint32_t header_bytes = kFileHeaderBytes;
  std::uint16_t major = kFormatMajor;
  std::uint16_t minor = kFormatMinor;
  std::uint32_t byte_order_mark = kByteOrderMark;
  std::uint32_t pid = 0;
  std::uint64_t features = 0;
  std::int64_t monotonic_start_ns = 0;  ///< both clocks at one moment; both 0 = not known
  std::int64_t realtime_start_ns = 0;
};

struct ChunkHeader {
  ChunkKind kind = ChunkKind::unknown;
  std::uint16_t flags = 0;
  std::uint32_t payload_bytes = 0;       ///< in the file
  std::uint32_t uncompressed_bytes = 0;  ///< of the size-prefixed flatbuffer, prefix included
  std::uint32_t record_count = 0;        ///< records, or rows of all tables; never more than bytes
  std::uint32_t launch_count = 0;        ///< calls: how many of them are launches
  std::uint32_t payload_crc = 0;         ///< CRC-32C of the payload as it lies in the file
  std::int64_t min_start_ns = 0;         ///< record kinds: earliest start and latest end
  std::int64_t max_end_ns = 0;

  bool operator==(const ChunkHeader& other) const;
};

/// Each fills exactly the number of bytes that the constants above name, checksums included.
void store_file_header(const FileHeader& header, std::uint8_t* out);
void store_chunk_header(const ChunkHeader& header, std::uint8_t* out);
void store_trailer(std::uint64_t footer_offset, std::uint8_t* out);

/// Decodes the fields without judging them; the magic was checked by the caller.
FileHeader load_file_header(const std::uint8_t* bytes);
/// False if the last 4 of `header_bytes` bytes are not the checksum of the bytes before.
bool has_valid_file_header_crc(const std::uint8_t* bytes, std::size_t header_bytes);
/// False if mark or checksum are wrong.
bool load_chunk_header(const std::uint8_t* bytes, ChunkHeader* out);
/// False if magic or checksum are wrong.
bool load_trailer(const std::uint8_t* bytes, std::uint64_t* footer_offset);

/// True if sizes and counts of a header are ones that a reader may act on.
bool has_sane_sizes(const ChunkHeader& header);

/// "activities", ...; "unknown" for kinds that are not known here.
const char* name_of(ChunkKind kind);
/// True for the kinds whose records have times.
constexpr bool has_times(ChunkKind kind) {
  return (kind >= ChunkKind::activities && kind <= ChunkKind::gaps) || kind == ChunkKind::samples;
}

}  // namespace gpuidle::trace
