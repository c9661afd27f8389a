// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/python_lines.h"

namespace gpuidle::stacks {
namespace {

struct Table {
  const unsigned char* at;
  const unsigned char* end;

  bool done() const { return at == end; }
  unsigned next() { return done() ? 0u : *at++; }
};

// (bytes, signed lines) pairs: each says where the next line begins.
std::int64_t by_increments(Table table, std::int64_t line, std::int64_t position) {
  std::int64_t address = 0;
  while (table.end - table.at >= 2) {
    address += table.next();
    if (address > position) break;
    line += static_cast<signed char>(table.next());
  }
  return line;
}

// (bytes, signed lines) pairs: each covers that many bytes; -128 marks code without a line.
std::int64_t by_ranges(Table table, std::int64_t line, std::int64_t position) {
  std::int64_t address = 0;
  while (table.end - table.at >= 2) {
    address += table.next();
    const auto delta = static_cast<signed char>(table.next());
    const bool has_line = delta != -128;
    if (has_line) line += delta;
    if (position < address) return has_line ? line : 0;
  }
  return 0;
}

// Little-endian groups of six bits; bit 6 says that more follow. The lowest bit is the sign.
std::int64_t signed_number(Table& table) {
  std::uint64_t value = 0;
  unsigned byte = table.next();
  value = byte & 63u;
  for (unsigned shift = 6; (byte & 64u) != 0 && shift < 60; shift += 6) {
    byte = table.next();
    value |= static_cast<std::uint64_t>(byte & 63u) << shift;
  }
  const auto magnitude = static_cast<std::int64_t>(value >> 1);
  return (value & 1u) != 0 ? -magnitude : magnitude;
}

// Entries whose first byte has bit 7: a form in bits 3 to 6, one less than its code units in the
// rest. The columns that follow have bit 7 clear.
std::int64_t by_locations(Table table, std::int64_t line, std::int64_t position) {
  constexpr unsigned kNoLocation = 15;
  constexpr unsigned kLongForm = 14;
  constexpr unsigned kNoColumns = 13;
  constexpr unsigned kFirstOneLineForm = 10;
  std::int64_t address = 0;
  while (!table.done()) {
    const unsigned first = table.next();
    const unsigned form = (first >> 3) & 15u;
    address += 2 * (static_cast<std::int64_t>(first & 7u) + 1);
    if (form == kLongForm || form == kNoColumns) {
      line += signed_number(table);
    } else if (form >= kFirstOneLineForm && form < kNoColumns) {
      line += form - kFirstOneLineForm;
    }
    if (position < address) return form == kNoLocation ? 0 : line;
    while (!table.done() && (*table.at & 0x80u) == 0) ++table.at;
  }
  return 0;
}

}  // namespace

std::uint32_t python_line(LineTable format, const unsigned char* table, std::size_t table_bytes,
                          std::int32_t first_line, std::int32_t position) {
  std::int64_t line = first_line;
  if (position >= 0) {
    const Table whole{table, table + table_bytes};
    switch (format) {
      case LineTable::increments:
        line = by_increments(whole, line, position);
        break;
      case LineTable::ranges:
        line = by_ranges(whole, line, position);
        break;
      case LineTable::locations:
        line = by_locations(whole, line, position);
        break;
    }
  }
  return line > 0 && line <= INT32_MAX ? static_cast<std::uint32_t>(line) : 0;
}

}  // namespace gpuidle::stacks
