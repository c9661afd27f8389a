// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/json_string.h"

#include <cctype>
#include <cstdint>

namespace gpuidle::import {
namespace {

void append_utf8(std::string& out, std::uint32_t code) {
  const auto byte = [&out](std::uint32_t value) { out.push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | (code >> 6));
    byte(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    byte(0xe0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  } else {
    byte(0xf0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3f));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  }
}

// The four hexadecimal digits at `at`, or a value over 0xffff.
std::uint32_t hex_at(std::string_view token, std::size_t at) {
  constexpr std::uint32_t kBad = 0x10000;
  if (at + 4 > token.size()) return kBad;
  std::uint32_t value = 0;
  for (const char c : token.substr(at, 4)) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return kBad;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    value = value * 16 + static_cast<std::uint32_t>(digit);
  }
  return value;
}

// Appends what the \u escape at `at` (its backslash) stands for; returns the bytes it takes.
std::size_t append_unicode(std::string& out, std::string_view token, std::size_t at) {
  const std::uint32_t high = hex_at(token, at + 2);
  if (high > 0xffff) {
    out.push_back('?');
    return 2;
  }
  if (high < 0xd800 || high > 0xdfff) {
    append_utf8(out, high);
    return 6;
  }
  const bool has_low = high < 0xdc00 && token.substr(at + 6, 2) == "\\u";
  const std::uint32_t low = has_low ? hex_at(token, at + 8) : 0;
  if (low < 0xdc00 || low > 0xdfff) {
    out.push_back('?');
    return 6;
  }
  append_utf8(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
  return 12;
}

}  // namespace

std::string unescaped(std::string_view token) {
  std::string out;
  out.reserve(token.size());
  for (std::size_t i = 0; i < token.size();) {
    if (token[i] != '\\') {
      out.push_back(token[i++]);
      continue;
    }
    const char escape = i + 1 < token.size() ? token[i + 1] : '\0';
    if (escape == 'u') {
      i += append_unicode(out, token, i);
      continue;
    }
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t known = escape == '\0' ? std::string_view::npos : kEscapes.find(escape);
    out.push_back(known == std::string_view::npos ? '?' : kMeanings[known]);
    i += 2;
  }
  return out;
}

}  // namespace gpuidle::import
