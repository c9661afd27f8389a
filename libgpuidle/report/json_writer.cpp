// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "libgpuidle/report/utf8.h"

namespace gpuidle::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

void append_quoted(std::string_view text, std::string* out) {
  *out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<unsigned>(c));
      ++i;
    } else if (const std::size_t length = utf8_length(text.substr(i)); length > 0) {
      out->append(text, i, length);
      i += length;
    } else {
      *out += kReplacement;
      ++i;
    }
  }
  *out += '"';
}

}  // namespace

void JsonWriter::before_value() {
  if (levels_.empty()) {
    if (is_complete_) throw std::logic_error("a JSON document has one value");
    is_complete_ = true;
    return;
  }
  Level& level = levels_.back();
  if (level.is_object) {
    if (!level.has_key) throw std::logic_error("a JSON object's value needs a key");
    level.has_key = false;
    return;
  }
  if (!level.is_empty) text_ += ',';
  level.is_empty = false;
}

void JsonWriter::begin(char bracket) {
  before_value();
  text_ += bracket;
  levels_.push_back({bracket == '{', true, false});
}

void JsonWriter::end(char bracket, bool of_object) {
  if (levels_.empty() || levels_.back().is_object != of_object || levels_.back().has_key) {
    throw std::logic_error("a JSON end without its begin");
  }
  levels_.pop_back();
  text_ += bracket;
}

JsonWriter& JsonWriter::begin_object() {
  begin('{');
  return *this;
}
JsonWriter& JsonWriter::end_object() {
  end('}', true);
  return *this;
}
JsonWriter& JsonWriter::begin_array() {
  begin('[');
  return *this;
}
JsonWriter& JsonWriter::end_array() {
  end(']', false);
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  if (levels_.empty() || !levels_.back().is_object || levels_.back().has_key) {
    throw std::logic_error("a JSON key outside of an object");
  }
  Level& level = levels_.back();
  if (!level.is_empty) text_ += ',';
  level.is_empty = false;
  level.has_key = true;
  // One line per top-level key: readable in a terminal and small in a diff.
  if (levels_.size() == 1) text_ += '\n';
  append_quoted(name, &text_);
  text_ += ':';
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_quoted(text, &text_);
  return *this;
}
JsonWriter& JsonWriter::value(bool is_true) {
  before_value();
  text_ += is_true ? "true" : "false";
  return *this;
}
JsonWriter& JsonWriter::value(std::int64_t number) {
  before_value();
  text_ += fmt::format_int(number).str();
  return *this;
}
JsonWriter& JsonWriter::value(std::uint64_t number) {
  before_value();
  text_ += fmt::format_int(number).str();
  return *this;
}
JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  before_value();
  text_ += fmt::format("{}", number);
  return *this;
}
JsonWriter& JsonWriter::null() {
  before_value();
  text_ += "null";
  return *this;
}

std::string JsonWriter::take() {
  if (!levels_.empty() || !is_complete_) throw std::logic_error("an unfinished JSON document");
  text_ += '\n';
  is_complete_ = false;
  return std::move(text_);
}

}  // namespace gpuidle::report
