// SPDX-License-Identifier: Apache-2.0
//
// Two ways to read this process's memory, for code that is written over both: as it is, where it is
// known to stand still, and through the kernel, which answers where a plain read would end the
// program. Used by the Python walk, the code table and the stacks of other threads.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuidle::stacks {

/// Reads memory of this process as it is. The address must be readable.
struct DirectMemory {
  template <typename T>
  bool load(const char* address, T* value) const {
    std::memcpy(value, address, sizeof(T));
    return true;
  }
};

/// Copies through the kernel, 0.4 us a time, and keeps what lies around the last few addresses: the
/// fields of an object are read one after the other. Context: any, also in a signal handler; one
/// user at a time. errno is not kept.
class PeekWindows {
 public:
  /// Forgets what was read: call where the memory may have changed.
  void forget() {
    for (Window& window : windows_) window.count = 0;
  }

  template <typename T>
  bool load(const char* address, T* value) {
    const char* bytes = find(address, sizeof(T));
    if (bytes == nullptr) return false;
    std::memcpy(value, bytes, sizeof(T));
    return true;
  }

  /// All of `count` bytes, or false.
  bool copy(const char* address, void* out, std::size_t count) {
    return read(address, out, count) == count;
  }

  /// False once the kernel refused to read for us at all (a container's filter).
  bool is_permitted() const { return is_permitted_; }

 private:
  static constexpr std::size_t kWindowBytes = 256;
  struct Window {
    std::uintptr_t begin;
    std::size_t count;
    char bytes[kWindowBytes];
  };

  const char* find(const char* wanted, std::size_t count) {
    const auto address = reinterpret_cast<std::uintptr_t>(wanted);
    for (const Window& window : windows_) {
      if (address >= window.begin && address - window.begin + count <= window.count) {
        return window.bytes + (address - window.begin);
      }
    }
    Window& window = windows_[next_++ % kWindows];
    // A little in front of it too: objects have fields on both sides of the one that leads there.
    constexpr std::uintptr_t kInFront = 32;
    constexpr std::uintptr_t kPage = 4096;
    const std::uintptr_t page = address & ~(kPage - 1);
    window.begin = address - page < kInFront ? page : address - kInFront;
    window.count = read(reinterpret_cast<const char*>(window.begin), window.bytes, kWindowBytes);
    const std::size_t offset = address - window.begin;
    return offset + count <= window.count ? window.bytes + offset : nullptr;
  }

  // Number of bytes that could be read; less than asked for at the end of a mapping.
  std::size_t read(const char* address, void* out, std::size_t count) {
    iovec local{out, count};
    // In two pieces where a page ends: one piece is read whole or not at all.
    constexpr std::uintptr_t kPage = 4096;
    const std::uintptr_t to_page_end =
        kPage - (reinterpret_cast<std::uintptr_t>(address) & (kPage - 1));
    const std::size_t first = count < to_page_end ? count : to_page_end;
    iovec remote[2] = {{const_cast<char*>(address), first},
                       {const_cast<char*>(address) + first, count - first}};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, remote, first < count ? 2 : 1, 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EFAULT) is_permitted_ = false;
    return 0;
  }

  static constexpr std::size_t kWindows = 4;
  Window windows_[kWindows] = {};
  std::size_t next_ = 0;
  bool is_permitted_ = true;
};

/// What a walk takes by value.
struct PeekMemory {
  PeekWindows* windows;
  template <typename T>
  bool load(const char* address, T* value) const {
    return windows->load(address, value);
  }
};

}  // namespace gpuidle::stacks
