// SPDX-License-Identifier: Apache-2.0
//
// One ELF object file as far as naming needs it: its build id and its function symbols. The path
// comes out of a recording, so the file may be anything; every offset and size is checked against
// the file before it is used. Feeds Symbolizer and LineTable.
#pragma once

#include <elf.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "libgpuidle/base/status.h"
#include "libgpuidle/symbols/symbol_index.h"

namespace gpuidle::symbols {

/// Reads with pread instead of a mapping: a file that shrinks meanwhile gives an error, not SIGBUS.
/// Context: tool; not thread-safe.
class ElfFile {
 public:
  /// Opens a 64-bit little-endian ELF file. Errors: not_found, permission_denied, io_error,
  /// wrong_format (not such a file), truncated or corrupt (its headers point outside of it).
  static base::Result<ElfFile> open(const std::string& path);
  ElfFile(ElfFile&& other) noexcept;
  ElfFile& operator=(ElfFile&&) = delete;
  ~ElfFile();

  /// Raw bytes of the GNU build id, "" if the file has none.
  std::string read_build_id() const;

  /// Adds the functions of .symtab and .dynsym to `index`. The names stay valid as long as this
  /// object. Damaged entries are left out; tables that do not lie in the file count as absent.
  void read_symbols(SymbolIndex& index);

  /// True if every section lies inside the file: the precondition for handing it to libdw.
  bool is_whole() const;
  bool has_section(std::string_view name) const;
  int descriptor() const { return fd_; }

 private:
  ElfFile(int fd, std::uint64_t size_bytes) : fd_(fd), size_bytes_(size_bytes) {}
  base::Status read_headers();
  bool lies_inside(std::uint64_t offset, std::uint64_t size) const;
  bool read(std::uint64_t offset, std::uint64_t size, void* target) const;
  bool read_section(const Elf64_Shdr& section, std::string& content) const;
  void read_symbol_table(const Elf64_Shdr& table, SymbolIndex& index);

  int fd_ = -1;
  std::uint64_t size_bytes_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::string section_names_;
  std::deque<std::string> string_tables_;  // a deque: views into it outlive later tables
};

}  // namespace gpuidle::symbols
