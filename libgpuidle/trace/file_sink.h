// SPDX-License-Identifier: Apache-2.0
//
// The descriptor that a trace goes to. Whole appends or the reason why not; never a signal for the
// host program. Fed by the trace writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "libgpuidle/base/status.h"

namespace gpuidle::trace {

/// Context: drain | tool; one thread at a time.
class FileSink {
 public:
  /// Owns `fd` from here on and marks it close-on-exec.
  FileSink(int fd, std::string path);
  ~FileSink();
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  /// Creates `path` for writing; it must not exist yet. Errors: io_error, permission_denied.
  static base::Result<int> create(const std::string& path);

  /// Hands all bytes to the kernel. On failure some of them may be in the file. Errors: io_error.
  base::Status append(const std::uint8_t* bytes, std::size_t count);
  /// Closes; what the file system reports that late is reported.
  base::Status close();

  std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  int fd_;
  std::string path_;
  std::uint64_t bytes_written_ = 0;
};

}  // namespace gpuidle::trace
