// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target: any bytes as an Nsight Systems export, once as they are and once with a header
// that fits their size, so that the fuzzer gets past it to the pages. The reader must return, and
// what it returns must keep the promises that the analysis builds on.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "libgpuidle/import/nsys.h"
#include "tests/fuzz/reader_promises.h"

namespace {

using namespace gpuidle;
using fuzz::demand;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kHeaderBytes = 100, kPageBytesAt = 16, kChangesAt = 24, kPagesAt = 28,
                      kVersionValidForAt = 92;
constexpr std::size_t kPageBytes = 512;

void store_big_endian(std::uint8_t* to, std::size_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<std::uint8_t>(value >> (8 * (count - 1 - i)));
  }
}

// Puts right what only the header's own arithmetic would refuse: magic, size of a page and number
// of pages. See https://www.sqlite.org/fileformat.html#the_database_header.
Bytes with_fitting_header(Bytes file) {
  if (file.size() < kHeaderBytes) return file;
  std::memcpy(file.data(), "SQLite format 3", 16);
  file.resize((file.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
  store_big_endian(file.data() + kPageBytesAt, kPageBytes, 2);
  store_big_endian(file.data() + kPagesAt, file.size() / kPageBytes, 4);
  std::memcpy(file.data() + kVersionValidForAt, file.data() + kChangesAt, 4);
  return file;
}

// SQLite opens by name and follows links, so a nameless file will not do.
class ScratchFile {
 public:
  ScratchFile() {
    char name[] = "/tmp/gpuidle_nsys_fuzz_XXXXXX";
    fd_ = ::mkstemp(name);
    demand(fd_ >= 0);
    path_ = name;
  }
  ~ScratchFile() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  const std::string& write(const Bytes& bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    demand(::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, bytes.data(), bytes.size(), 0) == size);
    return path_;
  }

 private:
  int fd_ = -1;
  std::string path_;
};

void read(const Bytes& bytes) {
  static const ScratchFile scratch;
  const auto opened = import::read_nsys(scratch.write(bytes));
  if (opened.ok()) {
    // Sparse times make as many slices as there are records; the sizes here keep that small.
    fuzz::check_promises(*opened.value());
    return;
  }
  const std::string& message = opened.status().message();
  demand(!message.empty() && message.find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(data, data + size);
  read(bytes);
  read(with_fitting_header(bytes));
  return 0;
}
