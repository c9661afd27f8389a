// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/json_repair.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuidle::import {
namespace {

// Bytes of the well-formed UTF-8 sequence at `at` (Unicode, table 3-7), 0 if there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint8_t>(text[at + i]) : std::uint8_t{0};
  };
  const auto is_in = [](std::uint8_t value, int first, int last) {
    return value >= first && value <= last;
  };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (is_in(lead, 0xc2, 0xdf)) return is_in(byte(1), 0x80, 0xbf) ? 2 : 0;
  if (is_in(lead, 0xe0, 0xef)) {
    const int first = lead == 0xe0 ? 0xa0 : 0x80;
    const int last = lead == 0xed ? 0x9f : 0xbf;
    return is_in(byte(1), first, last) && is_in(byte(2), 0x80, 0xbf) ? 3 : 0;
  }
  if (is_in(lead, 0xf0, 0xf4)) {
    const int first = lead == 0xf0 ? 0x90 : 0x80;
    const int last = lead == 0xf4 ? 0x8f : 0xbf;
    const bool is_whole =
        is_in(byte(1), first, last) && is_in(byte(2), 0x80, 0xbf) && is_in(byte(3), 0x80, 0xbf);
    return is_whole ? 4 : 0;
  }
  return 0;
}

// Follows strings and brackets and remembers where the last whole row ended.
class Bracketing {
 public:
  // True while the text of a string is passing by.
  bool is_in_string() const { return in_string_; }
  bool is_open() const { return in_string_ || depth_ > 0; }

  void pass(char c, std::size_t offset) {
    if (in_string_) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return;
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') open(c);
    if (c == '}' || c == ']') close(offset);
  }

  std::size_t last_row_end() const { return last_row_end_; }
  std::string closers() const {
    std::string text;
    for (std::size_t i = row_depth_; i > 0; --i) text += outer_[i - 1] == '{' ? '}' : ']';
    return text;
  }

 private:
  static constexpr std::size_t kRowDepth = 2;  // {"traceEvents": [ ... or [ ...

  void open(char c) {
    if (depth_ < kRowDepth) outer_[depth_] = c;
    ++depth_;
  }
  void close(std::size_t offset) {
    if (depth_ == 0) return;
    --depth_;
    const bool ends_row =
        depth_ == 1 || (depth_ == kRowDepth && outer_[0] == '{' && outer_[1] == '[');
    if (!ends_row) return;
    last_row_end_ = offset + 1;
    row_depth_ = depth_;
  }

  bool in_string_ = false;
  bool is_escaped_ = false;
  std::size_t depth_ = 0;
  char outer_[kRowDepth] = {};
  std::size_t last_row_end_ = 0;
  std::size_t row_depth_ = 0;
};

}  // namespace

JsonRepair repair_json(PaddedText& text) {
  JsonRepair repair;
  Bracketing brackets;
  char* const bytes = text.data();
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.view(), i);
    const bool is_control = brackets.is_in_string() && static_cast<std::uint8_t>(bytes[i]) < 0x20;
    if (length == 0 || is_control) {
      bytes[i] = '?';
      ++repair.bad_bytes;
    }
    brackets.pass(bytes[i], i);
    i += length == 0 ? 1 : length;
  }
  if (!brackets.is_open()) return repair;
  repair.is_cut_off = true;
  repair.dropped_bytes = text.size() - brackets.last_row_end();
  const std::string closers = brackets.closers();
  const std::size_t end = brackets.last_row_end();
  text.resize(end + closers.size());
  for (std::size_t i = 0; i < closers.size(); ++i) text.data()[end + i] = closers[i];
  return repair;
}

}  // namespace gpuidle::import
