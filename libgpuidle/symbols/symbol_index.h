// SPDX-License-Identifier: Apache-2.0
//
// The functions of one object file, sorted by address. Filled by ElfFile, asked by Symbolizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gpuidle::symbols {

/// Which of two symbols at one address names it; a greater value wins.
enum class SymbolRank : std::uint8_t { local = 0, weak = 1, global = 2 };

/// Context: tool; not thread-safe. Names are views that the owner of the index keeps alive.
class SymbolIndex {
 public:
  struct Hit {
    std::string_view name;   ///< mangled; empty = no symbol covers the address
    std::size_t symbol = 0;  ///< the same for all addresses of one symbol
    bool is_exact = false;   ///< the address lies within the symbol's size
  };

  /// Adds [begin, begin + size), in the file's own addresses; a size of 0 marks a label. A range
  /// that would wrap around is a damaged symbol and is left out.
  void add(std::uint64_t begin, std::uint64_t size, SymbolRank rank, std::string_view name);

  /// Sorts; to be called once after the last add().
  void seal();

  /// The innermost symbol that covers `address`, else the label it follows directly.
  Hit find(std::uint64_t address) const;

  bool empty() const { return symbols_.empty(); }
  std::size_t size() const { return symbols_.size(); }

 private:
  struct Symbol {
    std::uint64_t begin;
    std::uint64_t end;    // == begin for labels
    std::uint64_t reach;  // greatest end of this and all earlier symbols, set by seal()
    std::string_view name;
    SymbolRank rank;
  };
  std::vector<Symbol> symbols_;
};

}  // namespace gpuidle::symbols
