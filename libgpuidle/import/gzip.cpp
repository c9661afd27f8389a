// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/gzip.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace gpuidle::import {
namespace {

using base::Result;
using base::Status;
using base::StatusCode;

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

// The last four bytes hold the size of the last member modulo 2^32: right for nearly every file,
// and a wrong one only costs another attempt.
std::size_t guess_size(std::string_view bytes, std::size_t limit) {
  std::uint32_t announced = 0;
  if (bytes.size() >= 18) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[bytes.size() - 4 + i]);
      announced |= static_cast<std::uint32_t>(byte) << (8 * i);
    }
  }
  const std::size_t least = std::max<std::size_t>(bytes.size(), 4096);
  return std::min(std::max<std::size_t>(announced, least), limit);
}

// Doubles the room, keeping what is unpacked. False if there is no memory.
bool grow(PaddedText& text, std::size_t used_bytes, std::size_t limit) {
  PaddedText larger(std::min(limit, text.capacity() * 2));
  if (!larger.is_allocated()) return false;
  std::memcpy(larger.data(), text.data(), used_bytes);
  text = std::move(larger);
  return true;
}

bool is_padding(std::string_view rest) {
  return rest.find_first_not_of('\0') == std::string_view::npos;
}

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 3 && bytes[0] == '\x1f' && bytes[1] == '\x8b' && bytes[2] == '\x08';
}

Result<PaddedText> gunzip(std::string_view bytes, const std::string& path,
                          const GunzipLimits& limits) {
  const std::uint64_t plausible =
      std::max<std::uint64_t>(limits.free_bytes, bytes.size() * limits.max_ratio);
  const auto limit = static_cast<std::size_t>(std::min(limits.max_bytes, plausible));
  const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
      libdeflate_alloc_decompressor());
  PaddedText text(guess_size(bytes, limit));
  const Status no_memory(StatusCode::io_error,
                         fmt::format("cannot unpack {}: no memory for its contents", path));
  if (!decompressor || !text.is_allocated()) return no_memory;
  std::size_t read_bytes = 0, written_bytes = 0;
  while (read_bytes < bytes.size() && !is_padding(bytes.substr(read_bytes))) {
    std::size_t in_bytes = 0, out_bytes = 0;
    const libdeflate_result result = libdeflate_gzip_decompress_ex(
        decompressor.get(), bytes.data() + read_bytes, bytes.size() - read_bytes,
        text.data() + written_bytes, text.capacity() - written_bytes, &in_bytes, &out_bytes);
    if (result == LIBDEFLATE_SUCCESS) {
      read_bytes += in_bytes;
      written_bytes += out_bytes;
    } else if (result == LIBDEFLATE_INSUFFICIENT_SPACE && text.capacity() < limit) {
      if (!grow(text, written_bytes, limit)) return no_memory;
    } else if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
      return Status(
          StatusCode::corrupt,
          fmt::format("cannot unpack {}: its {} bytes expand to more than {} bytes, which "
                      "no recording does; if it is one, unpack it with gzip -d first",
                      path, bytes.size(), limit));
    } else {
      return Status(StatusCode::corrupt,
                    fmt::format("cannot unpack {}: the gzip data are damaged or cut off in the "
                                "member at byte {} of {}; what `gzip -dc` still gives can be read",
                                path, read_bytes, bytes.size()));
    }
  }
  text.resize(written_bytes);
  return text;
}

}  // namespace gpuidle::import
