// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/file_sink.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace gpuidle::trace {
namespace {

std::string error_text(int error) {
  char buffer[128];
  // The GNU variant: returns the text, which need not be in the buffer.
  return strerror_r(error, buffer, sizeof buffer);
}

// A write beyond RLIMIT_FSIZE raises SIGXFSZ and one to a closed pipe SIGPIPE, and both kill by
// default. The host has not asked for either: while this object lives, its thread does not see
// those that the write causes.
class WriteSignalsBlocked {
 public:
  WriteSignalsBlocked() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    sigemptyset(&ours_);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {
      if (sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
    }
    is_blocked_ = pthread_sigmask(SIG_BLOCK, &ours_, &before_) == 0;
  }
  ~WriteSignalsBlocked() {
    if (!is_blocked_) return;
    const int saved_errno = errno;
    const timespec no_wait{};
    while (sigtimedwait(&ours_, nullptr, &no_wait) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved_errno;
  }
  WriteSignalsBlocked(const WriteSignalsBlocked&) = delete;
  WriteSignalsBlocked& operator=(const WriteSignalsBlocked&) = delete;

 private:
  sigset_t ours_;
  sigset_t before_;
  bool is_blocked_ = false;
};

}  // namespace

FileSink::FileSink(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
  const int flags = fcntl(fd_, F_GETFD);
  if (flags >= 0) fcntl(fd_, F_SETFD, flags | FD_CLOEXEC);
}

FileSink::~FileSink() {
  if (fd_ >= 0) ::close(fd_);
}

base::Result<int> FileSink::create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
  if (fd >= 0) return fd;
  const int error = errno;
  const auto code = error == EACCES || error == EPERM || error == EROFS
                        ? base::StatusCode::permission_denied
                        : base::StatusCode::io_error;
  return base::Status(code, "cannot create " + path + ": " + error_text(error));
}

base::Status FileSink::append(const std::uint8_t* bytes, std::size_t count) {
  const WriteSignalsBlocked no_signals;
  while (count > 0) {
    const ssize_t written = ::write(fd_, bytes, count);
    if (written < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      return base::Status(base::StatusCode::io_error, "cannot write " + path_ + " at offset " +
                                                          std::to_string(bytes_written_) + ": " +
                                                          error_text(error));
    }
    bytes += written;
    count -= static_cast<std::size_t>(written);
    bytes_written_ += static_cast<std::uint64_t>(written);
  }
  return {};
}

base::Status FileSink::close() {
  if (fd_ < 0) return {};
  const int result = ::close(std::exchange(fd_, -1));
  if (result == 0 || errno == EINTR) return {};
  return base::Status(base::StatusCode::io_error,
                      "cannot close " + path_ + ": " + error_text(errno));
}

}  // namespace gpuidle::trace
