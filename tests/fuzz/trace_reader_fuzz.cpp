// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target: any bytes as a trace of ours, once as they are and once with the checksums put
// right, so that the fuzzer gets past them to the decoders. The reader must return, and what it
// returns must keep the promises that the analysis builds on.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "libgpuidle/trace/crc32c.h"
#include "libgpuidle/trace/trace_format.h"
#include "libgpuidle/trace/trace_reader.h"
#include "tests/fuzz/reader_promises.h"

namespace {

using namespace gpuidle;
using fuzz::demand;
using Bytes = std::vector<std::uint8_t>;

void store_crc(std::uint8_t* bytes, std::size_t count) {
  const std::uint32_t crc = trace::crc32c(bytes, count - 4);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[count - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  }
}

// Puts right what only a checksum would refuse: magic, header and chunk checksums.
Bytes sealed(Bytes file) {
  if (file.size() < trace::kFileHeaderBytes) return file;
  std::memcpy(file.data(), trace::kFileMagic, sizeof trace::kFileMagic);
  const std::size_t header_bytes = trace::load_file_header(file.data()).header_bytes;
  if (header_bytes < trace::kFileHeaderBytes || header_bytes > file.size()) return file;
  store_crc(file.data(), header_bytes);
  for (std::size_t at = header_bytes; file.size() - at >= trace::kChunkHeaderBytes;) {
    std::uint8_t* bytes = file.data() + at;
    const std::size_t left = file.size() - at - trace::kChunkHeaderBytes;
    store_crc(bytes, trace::kChunkHeaderBytes);
    trace::ChunkHeader header;
    if (!trace::load_chunk_header(bytes, &header)) break;  // no mark: perhaps the trailer
    header.payload_bytes =
        static_cast<std::uint32_t>(std::min<std::size_t>(header.payload_bytes, left));
    header.payload_crc = trace::crc32c(bytes + trace::kChunkHeaderBytes, header.payload_bytes);
    trace::store_chunk_header(header, bytes);
    at += trace::kChunkHeaderBytes + header.payload_bytes;
  }
  return file;
}

void read(const Bytes& bytes) {
  static const int fd = memfd_create("trace", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const auto size = static_cast<ssize_t>(bytes.size());
  demand(ftruncate(fd, size) == 0 && pwrite(fd, bytes.data(), bytes.size(), 0) == size);
  const auto opened = trace::open_trace(path);
  if (!opened.ok()) {
    const std::string& message = opened.status().message();
    demand(!message.empty() && message.find('\n') == std::string::npos);
    return;
  }
  fuzz::check_promises(*opened.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(data, data + size);
  read(bytes);
  read(sealed(bytes));
  return 0;
}
