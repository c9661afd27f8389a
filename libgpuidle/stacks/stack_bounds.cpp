// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/stack_bounds.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace gpuidle::stacks {
namespace {

// One line of /proc/self/maps at a time, without stdio's heap.
class MapsFile {
 public:
  MapsFile() : fd_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~MapsFile() {
    if (fd_ >= 0) close(fd_);
  }
  MapsFile(const MapsFile&) = delete;
  MapsFile& operator=(const MapsFile&) = delete;

  int next_char() {
    if (at_ == filled_) {
      ssize_t count = -1;
      do {
        count = fd_ < 0 ? 0 : read(fd_, buffer_, sizeof(buffer_));
      } while (count < 0 && errno == EINTR);
      if (count <= 0) return -1;
      filled_ = static_cast<std::size_t>(count);
      at_ = 0;
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }

  // Reads hexadecimal digits up to and with the character behind them.
  std::uintptr_t read_hex() {
    std::uintptr_t value = 0;
    for (int c = next_char(); c >= 0; c = next_char()) {
      if (c >= '0' && c <= '9') {
        value = value << 4 | static_cast<std::uintptr_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value << 4 | static_cast<std::uintptr_t>(c - 'a' + 10);
      } else {
        break;
      }
    }
    return value;
  }

  // Reads the rest of a line; true: it is that of the main thread's stack. False at the end too.
  bool rest_is_stack(bool* is_readable) {
    const char expected[] = "[stack]";
    std::size_t matched = 0;
    int c = next_char();
    *is_readable = c == 'r';
    for (; c >= 0 && c != '\n'; c = next_char()) {
      if (matched < sizeof(expected) - 1 && c == expected[matched]) ++matched;
    }
    return matched == sizeof(expected) - 1;
  }

 private:
  int fd_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  char buffer_[1024];
};

// How far the kernel lets the main thread's stack grow down.
std::uintptr_t growth_limit_bytes() {
  constexpr std::uintptr_t kUnlimited = std::uintptr_t{1} << 30;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur > kUnlimited) return kUnlimited;
  return limit.rlim_cur;
}

}  // namespace

StackBounds find_stack_bounds() {
  const int saved_errno = errno;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  StackBounds bounds;
  MapsFile maps;
  while (true) {
    const std::uintptr_t begin = maps.read_hex();
    const std::uintptr_t end = maps.read_hex();
    if (end == 0) break;
    bool is_readable = false;
    const bool is_main_stack = maps.rest_is_stack(&is_readable);
    if (here < begin || here >= end) continue;
    if (!is_readable) break;
    bounds = {begin, end};
    if (is_main_stack) bounds.begin = std::min(begin, end - std::min(end, growth_limit_bytes()));
    break;
  }
  // The C library's block of a thread lies at the upper end of its stack, and the mapping may go on
  // behind it with memory that is not the stack's.
  std::uintptr_t thread_block = 0;
  asm("movq %%fs:0, %0" : "=r"(thread_block));
  if (bounds.contains(thread_block) && thread_block > here) bounds.end = thread_block;
  errno = saved_errno;
  return bounds;
}

}  // namespace gpuidle::stacks
