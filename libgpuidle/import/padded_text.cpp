// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/padded_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpuidle::import {
namespace {

using base::Status;
using base::StatusCode;

// Closes the descriptor on every way out.
class File {
 public:
  explicit File(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status open_error(const std::string& path, int error) {
  const StatusCode code = error == ENOENT || error == ENOTDIR ? StatusCode::not_found
                          : error == EACCES || error == EPERM ? StatusCode::permission_denied
                                                              : StatusCode::io_error;
  return {code, fmt::format("cannot open {}: {}", path, std::strerror(error))};
}

Status not_a_file(const std::string& path, mode_t mode) {
  const char* found = S_ISDIR(mode)    ? "a directory"
                      : S_ISFIFO(mode) ? "a pipe"
                      : S_ISSOCK(mode) ? "a socket"
                                       : "a device";
  return {StatusCode::wrong_format,
          fmt::format("cannot read {}: it is {}, expected a file with a recording", path, found)};
}

}  // namespace

PaddedText::PaddedText(std::size_t capacity_bytes) : capacity_(capacity_bytes) {
  bytes_.reset(static_cast<char*>(std::malloc(capacity_bytes + kPaddingBytes)));
  if (bytes_) resize(0);
}

PaddedText PaddedText::copy_of(std::string_view text) {
  PaddedText copy(text.size());
  if (!copy.is_allocated()) return copy;
  std::copy(text.begin(), text.end(), copy.data());
  copy.resize(text.size());
  return copy;
}

void PaddedText::resize(std::size_t size_bytes) {
  size_ = std::min(size_bytes, capacity_ + kRepairBytes);
  const std::size_t behind_bytes = capacity_ + kPaddingBytes - size_;
  std::memset(bytes_.get() + size_, 0, std::min(behind_bytes, kPaddingBytes));
}

base::Result<PaddedText> read_file(const std::string& path, std::size_t limit_bytes) {
  const File file(path);
  if (file.fd() < 0) return open_error(path, errno);
  struct stat facts {};
  if (::fstat(file.fd(), &facts) != 0) return open_error(path, errno);
  if (!S_ISREG(facts.st_mode)) return not_a_file(path, facts.st_mode);
  const std::size_t expected_bytes = std::min(static_cast<std::size_t>(facts.st_size), limit_bytes);
  PaddedText text(expected_bytes);
  if (!text.is_allocated()) {
    return Status(StatusCode::io_error,
                  fmt::format("cannot read {}: no memory for its {} bytes", path, expected_bytes));
  }
  std::size_t done_bytes = 0;
  while (done_bytes < expected_bytes) {
    const ssize_t count = ::read(file.fd(), text.data() + done_bytes, expected_bytes - done_bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return Status(StatusCode::io_error, fmt::format("cannot read {} at byte {}: {}", path,
                                                      done_bytes, std::strerror(errno)));
    }
    if (count == 0) break;  // shrunk since fstat(): what is there is read
    done_bytes += static_cast<std::size_t>(count);
  }
  text.resize(done_bytes);
  return text;
}

}  // namespace gpuidle::import
