// SPDX-License-Identifier: Apache-2.0
//
// Writes one JSON document piece by piece. Fed by every command that knows --json; strings may
// hold any bytes (names come from untrusted files), the document is valid UTF-8 all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuidle::report {

/// Keys and values in the order in which they are to appear. Misuse (a value without a key inside
/// an object, an end without a begin) is a defect of the caller and throws std::logic_error.
/// Context: tool.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  /// Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool is_true);
  JsonWriter& value(std::int32_t number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(std::uint32_t number) { return value(static_cast<std::uint64_t>(number)); }
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint64_t number);
  /// Shortest digits that read back as the same double; NaN and infinities become null.
  JsonWriter& value(double number);
  JsonWriter& null();

  /// key() and value() in one; an empty optional becomes null.
  template <typename Value>
  JsonWriter& field(std::string_view name, const Value& of) {
    key(name);
    return value(of);
  }
  template <typename Value>
  JsonWriter& field(std::string_view name, const std::optional<Value>& of) {
    key(name);
    return of ? value(*of) : null();
  }

  /// The finished document with a final newline. Everything that was begun must be ended.
  std::string take();

 private:
  void before_value();
  void begin(char bracket);
  void end(char bracket, bool of_object);

  struct Level {
    bool is_object = false;
    bool is_empty = true;
    bool has_key = false;
  };
  std::string text_;
  std::vector<Level> levels_;
  bool is_complete_ = false;
};

}  // namespace gpuidle::report
