// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/chunk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libgpuidle/base/version.h"
#include "libgpuidle/trace/chunk_decoder.h"
#include "libgpuidle/trace/crc32c.h"

namespace gpuidle::trace {
namespace {

std::string version_text(unsigned major, unsigned minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string hex_text(std::uint64_t value) {
  static const char* const kDigits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + text;
}

base::Status open_failure(const std::string& path, int error) {
  const auto code = error == ENOENT || error == ENOTDIR ? base::StatusCode::not_found
                    : error == EACCES || error == EPERM ? base::StatusCode::permission_denied
                                                        : base::StatusCode::io_error;
  return {code, "cannot read " + path + ": " + std::strerror(error)};
}

// A vector that never shrinks, so that its bytes are zeroed once and not per chunk.
void ensure_size(std::vector<std::uint8_t>& bytes, std::size_t count) {
  if (bytes.size() < count) bytes.resize(count);
}

}  // namespace

ChunkBuffers::ChunkBuffers() : zstd_(ZSTD_createDCtx()) {}
ChunkBuffers::~ChunkBuffers() { ZSTD_freeDCtx(zstd_); }

ChunkFile::ChunkFile(int fd, std::string path, std::uint64_t size_bytes)
    : fd_(fd), path_(std::move(path)), size_bytes_(size_bytes) {}

ChunkFile::~ChunkFile() { ::close(fd_); }

base::Result<std::unique_ptr<ChunkFile>> ChunkFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return open_failure(path, errno);
  struct stat status {};
  const int stat_result = fstat(fd, &status);
  const int stat_error = errno;
  std::unique_ptr<ChunkFile> file(
      new ChunkFile(fd, path, stat_result == 0 ? static_cast<std::uint64_t>(status.st_size) : 0));
  if (stat_result != 0) return open_failure(path, stat_error);
  if (S_ISDIR(status.st_mode)) return open_failure(path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    return file->fail(base::StatusCode::io_error,
                      "expected a regular file, found a device, pipe or socket");
  }
  base::Status header_status = file->read_header();
  if (!header_status.ok()) return header_status;
  if (!file->list_by_index()) file->list_by_walking();
  return file;
}

base::Status ChunkFile::read_header() {
  std::vector<std::uint8_t> bytes(kFileHeaderBytes);
  const std::size_t found = std::min<std::uint64_t>(size_bytes_, bytes.size());
  if (!read_at(0, bytes.data(), found)) {
    return fail(base::StatusCode::io_error, std::string("header: ") + std::strerror(errno));
  }
  if (std::memcmp(bytes.data(), kFileMagic, std::min(found, sizeof kFileMagic)) != 0) {
    return fail(base::StatusCode::wrong_format,
                "not a gpuidle trace (the first 8 bytes are not its magic)");
  }
  if (found < bytes.size()) {
    return fail(base::StatusCode::truncated, "the file header is cut off (wanted " +
                                                 std::to_string(kFileHeaderBytes) +
                                                 " bytes, found " + std::to_string(found) + ")");
  }
  header_ = load_file_header(bytes.data());
  base::Status version_status = check_version();
  if (!version_status.ok()) return version_status;
  if (header_.header_bytes < kFileHeaderBytes || header_.header_bytes > kMaxFileHeaderBytes) {
    return fail(base::StatusCode::corrupt,
                "file header claims " + std::to_string(header_.header_bytes) + " bytes, expected " +
                    std::to_string(kFileHeaderBytes) + " to " +
                    std::to_string(kMaxFileHeaderBytes));
  }
  bytes.resize(header_.header_bytes);
  if (size_bytes_ < bytes.size() || !read_at(0, bytes.data(), bytes.size())) {
    return fail(base::StatusCode::truncated, "the file header is cut off (wanted " +
                                                 std::to_string(bytes.size()) + " bytes, found " +
                                                 std::to_string(size_bytes_) + ")");
  }
  if (!has_valid_file_header_crc(bytes.data(), bytes.size())) {
    return fail(base::StatusCode::corrupt, "the checksum of the file header is wrong");
  }
  return {};
}

base::Status ChunkFile::check_version() const {
  if (header_.byte_order_mark != kByteOrderMark) {
    return fail(base::StatusCode::corrupt, "byte order mark is " +
                                               hex_text(header_.byte_order_mark) + ", expected " +
                                               hex_text(kByteOrderMark));
  }
  if (header_.major != kFormatMajor) {
    return fail(base::StatusCode::unsupported_version,
                "trace format " + version_text(header_.major, header_.minor) + " is " +
                    (header_.major > kFormatMajor ? "newer" : "older") + " than " +
                    version_text(kFormatMajor, kFormatMinor) + ", the one that gpuidle " +
                    base::kToolVersion + " reads; use the gpuidle that recorded it");
  }
  if ((header_.features & kMustKnowFeatures) != 0) {
    return fail(base::StatusCode::unsupported_version,
                "trace format " + version_text(header_.major, header_.minor) + " uses features " +
                    hex_text(header_.features & kMustKnowFeatures) + " that gpuidle " +
                    base::kToolVersion + " does not know; use the gpuidle that recorded it");
  }
  return {};
}

bool ChunkFile::list_by_index() {
  if (size_bytes_ < header_.header_bytes + kChunkHeaderBytes + kTrailerBytes) return false;
  std::uint8_t trailer[kTrailerBytes];
  Entry footer;
  const std::uint64_t trailer_offset = size_bytes_ - kTrailerBytes;
  if (!read_at(trailer_offset, trailer, sizeof trailer)) return false;
  if (!load_trailer(trailer, &footer.offset)) return false;
  if (footer.offset < header_.header_bytes || footer.offset > trailer_offset - kChunkHeaderBytes) {
    return false;
  }
  std::uint8_t header[kChunkHeaderBytes];
  if (!read_at(footer.offset, header, sizeof header)) return false;
  if (!load_chunk_header(header, &footer.header) || !has_sane_sizes(footer.header)) return false;
  if (footer.header.kind != ChunkKind::footer ||
      footer.offset + kChunkHeaderBytes + footer.header.payload_bytes != trailer_offset) {
    return false;
  }
  ChunkBuffers buffers;
  if (!load(footer, 0, &buffers).ok()) return false;
  std::vector<ChunkHeader> headers;
  if (!decode_index(buffers.bytes(), buffers.size_bytes(), &headers).empty()) return false;
  if (headers.empty()) return false;
  std::vector<Entry> entries;
  entries.reserve(headers.size() + 1);
  std::uint64_t offset = header_.header_bytes;
  for (const ChunkHeader& listed : headers) {
    if (!has_sane_sizes(listed)) return false;
    entries.push_back({listed, offset});
    offset += kChunkHeaderBytes + listed.payload_bytes;
  }
  if (offset != footer.offset) return false;
  entries.push_back(footer);
  chunks_ = std::move(entries);
  has_footer_ = has_index_ = true;
  return true;
}

void ChunkFile::list_by_walking() {
  Entry entry;
  entry.offset = header_.header_bytes;
  while (entry.offset < size_bytes_) {
    const std::uint64_t left = size_bytes_ - entry.offset;
    std::uint8_t bytes[kChunkHeaderBytes];
    if (left < sizeof bytes) {
      warnings_.push_back("the last chunk is cut off (its header has " + std::to_string(left) +
                          " of " + std::to_string(sizeof bytes) + " bytes)");
      return;
    }
    const std::size_t number = chunks_.size();
    if (!read_at(entry.offset, bytes, sizeof bytes)) {
      damage_ = fail_chunk(base::StatusCode::io_error, entry, number, "cannot read its header");
      return;
    }
    if (!load_chunk_header(bytes, &entry.header)) {
      if (is_zero_from(entry.offset)) {
        // What some file systems leave of a write that a power failure interrupted.
        warnings_.push_back("the file ends in " + std::to_string(left) + " zero bytes");
      } else {
        entry.header = {};
        damage_ = fail_chunk(base::StatusCode::corrupt, entry, number,
                             "no valid chunk header (mark or checksum are wrong)");
      }
      return;
    }
    if (!has_sane_sizes(entry.header)) {
      damage_ = fail_chunk(base::StatusCode::corrupt, entry, number,
                           "its header claims impossible sizes or times");
      return;
    }
    if (left - sizeof bytes < entry.header.payload_bytes) {
      warnings_.push_back("the last chunk is cut off (wanted " +
                          std::to_string(entry.header.payload_bytes) + " bytes, found " +
                          std::to_string(left - sizeof bytes) + ")");
      return;
    }
    chunks_.push_back(entry);
    entry.offset += kChunkHeaderBytes + entry.header.payload_bytes;
    if (entry.header.kind == ChunkKind::footer) {
      has_footer_ = true;
      check_trailer(entry.offset);
      return;
    }
  }
}

void ChunkFile::check_trailer(std::uint64_t offset) {
  std::uint8_t bytes[kTrailerBytes];
  std::uint64_t footer_offset = 0;
  if (size_bytes_ - offset != kTrailerBytes || !read_at(offset, bytes, sizeof bytes) ||
      !load_trailer(bytes, &footer_offset)) {
    warnings_.push_back("the trailer after the footer is damaged or missing");
  }
}

bool ChunkFile::read_at(std::uint64_t offset, std::uint8_t* out, std::size_t count) const {
  while (count > 0) {
    const ssize_t got = pread(fd_, out, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ENODATA;  // the file shrank meanwhile
    if (got <= 0) return false;
    out += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

bool ChunkFile::is_zero_from(std::uint64_t offset) const {
  std::vector<std::uint8_t> block(64 * 1024);
  while (offset < size_bytes_) {
    const std::size_t count = std::min<std::uint64_t>(block.size(), size_bytes_ - offset);
    if (!read_at(offset, block.data(), count)) return false;
    if (std::any_of(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count),
                    [](std::uint8_t byte) { return byte != 0; })) {
      return false;
    }
    offset += count;
  }
  return true;
}

base::Status ChunkFile::load(std::size_t chunk, ChunkBuffers* buffers) const {
  return load(chunks_[chunk], chunk, buffers);
}

base::Status ChunkFile::load(const Entry& entry, std::size_t number, ChunkBuffers* buffers) const {
  const ChunkHeader& wanted = entry.header;
  ensure_size(buffers->in_file_, kChunkHeaderBytes + wanted.payload_bytes);
  std::uint8_t* in_file = buffers->in_file_.data();
  if (!read_at(entry.offset, in_file, kChunkHeaderBytes + wanted.payload_bytes)) {
    return fail_chunk(errno == ENODATA ? base::StatusCode::truncated : base::StatusCode::io_error,
                      entry, number, std::string("cannot read it: ") + std::strerror(errno));
  }
  ChunkHeader found;
  if (!load_chunk_header(in_file, &found)) {
    return fail_chunk(base::StatusCode::corrupt, entry, number,
                      "no valid chunk header (mark or checksum are wrong)");
  }
  ChunkHeader expected = wanted;
  expected.payload_crc = found.payload_crc;  // not part of the index
  if (!(found == expected)) {
    return fail_chunk(base::StatusCode::corrupt, entry, number,
                      "its header contradicts the index in the footer");
  }
  const std::uint8_t* payload = in_file + kChunkHeaderBytes;
  const std::uint32_t crc = crc32c(payload, found.payload_bytes);
  if (crc != found.payload_crc) {
    return fail_chunk(
        base::StatusCode::corrupt, entry, number,
        "payload checksum is " + hex_text(crc) + ", expected " + hex_text(found.payload_crc));
  }
  buffers->bytes_ = payload;
  buffers->size_bytes_ = found.uncompressed_bytes;
  if ((found.flags & kChunkCompressed) != 0) {
    if (ZSTD_getFrameContentSize(payload, found.payload_bytes) != found.uncompressed_bytes) {
      return fail_chunk(base::StatusCode::corrupt, entry, number,
                        "the compressed frame does not announce the " +
                            std::to_string(found.uncompressed_bytes) + " bytes of its header");
    }
    ensure_size(buffers->inflated_, found.uncompressed_bytes);
    const std::size_t inflated =
        ZSTD_decompressDCtx(buffers->zstd_, buffers->inflated_.data(), found.uncompressed_bytes,
                            payload, found.payload_bytes);
    if (ZSTD_isError(inflated) != 0 || inflated != found.uncompressed_bytes) {
      return fail_chunk(base::StatusCode::corrupt, entry, number,
                        "the compressed frame does not inflate to " +
                            std::to_string(found.uncompressed_bytes) + " bytes");
    }
    buffers->bytes_ = buffers->inflated_.data();
  }
  return {};
}

base::Status ChunkFile::corrupt_chunk(std::size_t chunk, const std::string& problem) const {
  return fail_chunk(base::StatusCode::corrupt, chunks_[chunk], chunk, problem);
}

base::Status ChunkFile::fail(base::StatusCode code, const std::string& what) const {
  return {code, "cannot read " + path_ + ": " + what};
}

base::Status ChunkFile::fail_chunk(base::StatusCode code, const Entry& entry, std::size_t number,
                                   const std::string& problem) const {
  const std::string kind = entry.header.kind == ChunkKind::unknown
                               ? std::string()
                               : std::string(" (") + name_of(entry.header.kind) + ")";
  return fail(code, "chunk " + std::to_string(number) + kind + " at offset " +
                        std::to_string(entry.offset) + ": " + problem);
}

}  // namespace gpuidle::trace
