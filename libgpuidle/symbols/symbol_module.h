// SPDX-License-Identifier: Apache-2.0
//
// One module of a recording, opened for naming: its object file if that still is the recorded one,
// and its separate debug file if there is one. Owned and asked by Symbolizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "libgpuidle/symbols/elf_file.h"
#include "libgpuidle/symbols/line_table.h"
#include "libgpuidle/symbols/symbol_index.h"

namespace gpuidle::symbols {

/// Context: tool; not thread-safe.
class SymbolModule {
 public:
  struct Name {
    std::string function;  ///< demangled, without parameters
    bool is_exact = false;
  };

  /// Opens what there is for `path`; never fails. `build_id` holds the raw bytes that were
  /// recorded.
  SymbolModule(const std::string& path, const std::string& build_id,
               const std::string& debug_directory);

  /// The function that covers `address` (in the file's own terms), if a symbol says so.
  std::optional<Name> name_of(std::uint64_t address);
  std::optional<LineTable::Place> place_of(std::uint64_t address);

  /// What the user should know about this file, "" = nothing.
  const std::string& warning() const { return warning_; }

 private:
  void open_object(const std::string& path, const std::string& build_id);
  void open_debug_file(const std::string& build_id, const std::string& debug_directory);

  std::optional<ElfFile> object_;
  std::optional<ElfFile> debug_;
  SymbolIndex index_;
  std::unique_ptr<LineTable> lines_;
  bool is_line_table_tried_ = false;
  std::unordered_map<std::size_t, std::string> demangled_;  // by SymbolIndex::Hit::symbol
  std::string warning_;
};

}  // namespace gpuidle::symbols
