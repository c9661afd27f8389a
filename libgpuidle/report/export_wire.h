// SPDX-License-Identifier: Apache-2.0
//
// The wire format of Protocol Buffers, as far as the Perfetto export needs it: a message is a
// string to which fields are appended. (protobuf.dev, "Encoding".)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuidle::report::wire {

inline void append_varint(std::uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

/// uint32, uint64, bool and enumerations; int64 as its two's complement.
inline void append_number(std::uint32_t field, std::uint64_t value, std::string* out) {
  append_varint(std::uint64_t{field} << 3, out);
  append_varint(value, out);
}

/// fixed64.
inline void append_fixed(std::uint32_t field, std::uint64_t value, std::string* out) {
  append_varint(std::uint64_t{field} << 3 | 1, out);
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

/// string, bytes and messages. Strings must be UTF-8.
inline void append_bytes(std::uint32_t field, std::string_view bytes, std::string* out) {
  append_varint(std::uint64_t{field} << 3 | 2, out);
  append_varint(bytes.size(), out);
  out->append(bytes);
}

}  // namespace gpuidle::report::wire
