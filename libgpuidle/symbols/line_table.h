// SPDX-License-Identifier: Apache-2.0
//
// Source file and line of an address from DWARF. The only room that includes libdw, and the only
// file of it. Fed by an ElfFile that has been checked, asked by Symbolizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gpuidle::symbols {

/// Context: tool; not thread-safe.
class LineTable {
 public:
  struct Place {
    std::string file;
    std::uint32_t line = 0;  ///< 1-based
  };

  /// Reads the debug information behind `fd`, which must stay open as long as this object. Returns
  /// nullptr if there is none or libdw refuses it.
  static std::unique_ptr<LineTable> open(int fd);
  ~LineTable();
  LineTable(const LineTable&) = delete;
  LineTable& operator=(const LineTable&) = delete;

  /// Where `address`, in the file's own terms, comes from; nullopt if the tables do not cover it or
  /// attribute it to no line (compiler-made code). Of code that was inlined it is the line in the
  /// function that it was inlined into, the one that has a symbol.
  std::optional<Place> find(std::uint64_t address);

 private:
  struct State;
  explicit LineTable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpuidle::symbols
