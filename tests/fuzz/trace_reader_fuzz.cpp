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

namespace {

using namespace gpuidle;
using Bytes = std::vector<std::uint8_t>;

void demand(bool holds) {
  if (!holds) std::abort();
}

class Checker : public model::SliceVisitor {
 public:
  explicit Checker(const model::Tables& tables) : tables_(tables) {}

  void on_slice(const model::Slice& slice) override {
    demand(slice.begin_ns < slice.end_ns && slice.begin_ns >= end_ns_);
    end_ns_ = slice.end_ns;
    const std::size_t strings = tables_.strings().size(), threads = tables_.threads().size();
    std::int64_t last_ns = slice.begin_ns;
    for (const auto& a : slice.activities) {
      demand(a.start_ns >= last_ns && a.start_ns < slice.end_ns && a.end_ns >= a.start_ns);
      demand(a.kernel < tables_.kernels().size() && a.name < strings);
      last_ns = a.start_ns;
    }
    for (const auto& c : slice.calls) {
      demand(c.enter_ns >= last_call_ns_ && c.exit_ns >= c.enter_ns);
      demand(c.thread < threads && c.api < tables_.apis().size());
      demand(c.stack < tables_.stack_count());
      last_call_ns_ = c.enter_ns;
    }
    for (const auto& m : slice.markers) demand(m.thread < threads && m.name < strings);
    for (const auto& o : slice.overheads) demand(o.thread < threads && o.name < strings);
    for (const auto& u : slice.unobserved) demand(u.reason < strings && u.end_ns >= u.start_ns);
    for (const auto& g : slice.gaps) demand(g.end_ns >= g.start_ns);
  }

 private:
  const model::Tables& tables_;
  std::int64_t end_ns_ = INT64_MIN;
  std::int64_t last_call_ns_ = INT64_MIN;
};

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
  demand(opened.value()->tables().is_consistent());
  Checker checker(opened.value()->tables());
  const base::Status status = opened.value()->visit(checker);
  demand(status.ok() || !status.message().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(data, data + size);
  read(bytes);
  read(sealed(bytes));
  return 0;
}
