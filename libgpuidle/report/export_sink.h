// SPDX-License-Identifier: Apache-2.0
//
// Where an export goes: piece by piece, so that memory does not grow with the recording. Fed by the
// export formats; the command behind it owns the file and knows what went wrong with it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuidle::report {

/// Context: tool.
class ExportSink {
 public:
  virtual ~ExportSink() = default;
  /// Takes the next bytes. A sink that failed ignores the rest and tells its owner.
  virtual void write(std::string_view bytes) = 0;
};

/// Collects small pieces and hands them on in large ones.
class ExportBuffer {
 public:
  explicit ExportBuffer(ExportSink* sink) : sink_(sink) {}

  /// Append here, then call flush_if_full().
  std::string& text() { return text_; }
  void flush_if_full() {
    if (text_.size() >= kFull) flush();
  }
  void flush() {
    if (!text_.empty()) sink_->write(text_);
    text_.clear();
  }

 private:
  static constexpr std::size_t kFull = 1U << 16;

  ExportSink* sink_;
  std::string text_;
};

}  // namespace gpuidle::report
