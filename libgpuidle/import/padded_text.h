// SPDX-License-Identifier: Apache-2.0
//
// A whole file in memory, with readable bytes behind its end: simdjson reads up to 64 bytes past
// the text. Filled from a file or by gunzip(), consumed by the JSON readers of this room.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "libgpuidle/base/status.h"

namespace gpuidle::import {

/// Owns the bytes; movable. The text may be rewritten in place and grow into the padding by at most
/// kRepairBytes.
class PaddedText {
 public:
  static constexpr std::size_t kRepairBytes = 8;
  static constexpr std::size_t kPaddingBytes = 64 + kRepairBytes;

  PaddedText() = default;
  /// Room for `capacity_bytes` of text; is_allocated() is false if there is no memory for it.
  explicit PaddedText(std::size_t capacity_bytes);
  /// A copy of `text`. For tests and small inputs.
  static PaddedText copy_of(std::string_view text);

  bool is_allocated() const { return bytes_ != nullptr; }
  char* data() { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  std::string_view view() const { return {bytes_.get(), size_}; }
  /// Sets the length (at most capacity() + kRepairBytes) and clears the padding behind it.
  void resize(std::size_t size_bytes);

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<char, Free> bytes_;  // malloc: pages of a wrong guess are never touched
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Reads a regular file, or its first `limit_bytes`. Errors: not_found, permission_denied,
/// io_error, and wrong_format for a directory, device or pipe. Context: tool.
base::Result<PaddedText> read_file(
    const std::string& path, std::size_t limit_bytes = std::numeric_limits<std::size_t>::max());

}  // namespace gpuidle::import
