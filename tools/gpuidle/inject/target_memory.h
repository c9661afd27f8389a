// SPDX-License-Identifier: Apache-2.0
//
// The memory of another process, and the symbols in it: libraries are read where they are mapped
// and not from files, so that containers, chroots and replaced files make no difference. Feeds the
// injector. Stops nothing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuidle::cli {

class TargetMemory {
 public:
  explicit TargetMemory(pid_t pid) : pid_(pid) {}
  pid_t pid() const { return pid_; }

  /// False: not all of it could be read (written).
  bool read(std::uint64_t address, void* to, std::size_t bytes) const;
  bool write(std::uint64_t address, const void* from, std::size_t bytes) const;

  template <typename Value>
  bool read(std::uint64_t address, Value* value) const {
    return read(address, value, sizeof(*value));
  }
  /// At most `limit` bytes, up to a zero; "" if it cannot be read.
  std::string text(std::uint64_t address, std::size_t limit) const;

 private:
  pid_t pid_;
};

struct TargetSymbol {
  std::string name;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// One library in the target, by its dynamic symbols.
class TargetLibrary {
 public:
  /// `base` is where its ELF header is mapped. is_valid() says whether it could be read.
  TargetLibrary(const TargetMemory& memory, std::uint64_t base);
  bool is_valid() const { return symbols_ != 0; }

  /// Whether `name` is among the symbols that it defines, by its hash table: a few words are read.
  bool defines(const std::string& name) const { return find(name, nullptr); }
  /// Run-time address of `name`, 0 = not defined.
  std::uint64_t address_of(const std::string& name) const;
  /// All defined functions and objects, by address. Reads the whole table.
  std::vector<TargetSymbol> all() const;

 private:
  bool find(const std::string& name, std::uint64_t* address) const;
  std::uint32_t symbol_count() const;

  const TargetMemory& memory_;
  std::uint64_t base_;
  std::uint64_t bias_ = 0;
  std::uint64_t symbols_ = 0;
  std::uint64_t strings_ = 0;
  std::uint64_t string_bytes_ = 0;
  std::uint64_t buckets_ = 0;
  std::uint64_t chains_ = 0;
  std::uint32_t bucket_count_ = 0;
  std::uint32_t first_hashed_ = 0;
};

}  // namespace gpuidle::cli
