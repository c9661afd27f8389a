// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/target_memory.h"

#include <elf.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace gpuidle::cli {
namespace {

// Counts that a real library never has; a damaged one must not make us read for ever.
constexpr std::uint32_t kMaxSymbols = 1U << 20;
constexpr std::uint64_t kMaxStringBytes = 64U << 20;

std::uint32_t gnu_hash(const std::string& name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

}  // namespace

bool TargetMemory::read(std::uint64_t address, void* to, std::size_t bytes) const {
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool TargetMemory::write(std::uint64_t address, const void* from, std::size_t bytes) const {
  const iovec local{const_cast<void*>(from), bytes};
  const iovec remote{reinterpret_cast<void*>(address), bytes};
  return process_vm_writev(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

std::string TargetMemory::text(std::uint64_t address, std::size_t limit) const {
  std::string result;
  char c = 0;
  while (result.size() < limit && read(address + result.size(), &c) && c != '\0') result += c;
  return result;
}

TargetLibrary::TargetLibrary(const TargetMemory& memory, std::uint64_t base)
    : memory_(memory), base_(base) {
  Elf64_Ehdr header{};
  if (!memory.read(base, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
  std::uint64_t dynamic = 0;
  bool has_bias = false;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!memory.read(base + header.e_phoff + sizeof(segment) * static_cast<unsigned>(i),
                     &segment)) {
      return;
    }
    if (segment.p_type == PT_LOAD && !has_bias) {
      bias_ = base - (segment.p_vaddr - segment.p_offset);
      has_bias = true;
    }
    if (segment.p_type == PT_DYNAMIC) dynamic = segment.p_vaddr;
  }
  if (dynamic == 0 || !has_bias) return;
  // The loader has relocated the addresses in there, but not in every library.
  const auto absolute = [this](std::uint64_t value) {
    return value < base_ ? value + bias_ : value;
  };
  std::uint64_t hash = 0;
  std::uint64_t symbols = 0;
  for (std::uint64_t at = bias_ + dynamic;; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry{};
    if (!memory.read(at, &entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMTAB) symbols = absolute(entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRTAB) strings_ = absolute(entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRSZ) string_bytes_ = std::min(entry.d_un.d_val, kMaxStringBytes);
    if (entry.d_tag == DT_GNU_HASH) hash = absolute(entry.d_un.d_ptr);
  }
  std::uint32_t head[4] = {};  // buckets, first hashed symbol, words of the filter, its shift
  if (symbols == 0 || strings_ == 0 || hash == 0 || !memory.read(hash, &head)) return;
  if (head[0] == 0 || head[0] > kMaxSymbols || head[2] > kMaxSymbols) return;
  bucket_count_ = head[0];
  first_hashed_ = head[1];
  buckets_ = hash + sizeof(head) + std::uint64_t{head[2]} * 8;
  chains_ = buckets_ + std::uint64_t{bucket_count_} * 4;
  symbols_ = symbols;
}

bool TargetLibrary::find(const std::string& name, std::uint64_t* address) const {
  if (!is_valid()) return false;
  const std::uint32_t hash = gnu_hash(name);
  std::uint32_t index = 0;
  if (!memory_.read(buckets_ + std::uint64_t{hash % bucket_count_} * 4, &index)) return false;
  for (; index >= first_hashed_ && index < kMaxSymbols; ++index) {
    std::uint32_t chain = 0;
    if (!memory_.read(chains_ + std::uint64_t{index - first_hashed_} * 4, &chain)) return false;
    if ((chain | 1U) == (hash | 1U)) {
      Elf64_Sym symbol{};
      if (!memory_.read(symbols_ + index * sizeof(symbol), &symbol)) return false;
      if (symbol.st_shndx != SHN_UNDEF &&
          memory_.text(strings_ + symbol.st_name, name.size() + 1) == name) {
        if (address != nullptr) *address = bias_ + symbol.st_value;
        return true;
      }
    }
    if ((chain & 1U) != 0) return false;
  }
  return false;
}

std::uint64_t TargetLibrary::address_of(const std::string& name) const {
  std::uint64_t address = 0;
  return find(name, &address) ? address : 0;
}

// The table has no count of its own: it ends with the last chain.
std::uint32_t TargetLibrary::symbol_count() const {
  std::vector<std::uint32_t> buckets(bucket_count_);
  if (!memory_.read(buckets_, buckets.data(), buckets.size() * 4)) return 0;
  std::uint32_t last = *std::max_element(buckets.begin(), buckets.end());
  std::uint32_t chain = 0;
  while (last >= first_hashed_ && last < kMaxSymbols &&
         memory_.read(chains_ + std::uint64_t{last - first_hashed_} * 4, &chain)) {
    ++last;
    if ((chain & 1U) != 0) return last;
  }
  return 0;
}

std::vector<TargetSymbol> TargetLibrary::all() const {
  std::vector<TargetSymbol> result;
  if (!is_valid()) return result;
  std::vector<Elf64_Sym> table(symbol_count());
  std::string names(string_bytes_, '\0');
  if (!memory_.read(symbols_, table.data(), table.size() * sizeof(Elf64_Sym)) ||
      !memory_.read(strings_, names.data(), names.size())) {
    return result;
  }
  for (const Elf64_Sym& symbol : table) {
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.size()) continue;
    TargetSymbol found;
    found.name = names.c_str() + symbol.st_name;
    found.begin = bias_ + symbol.st_value;
    found.end = found.begin + symbol.st_size;
    result.push_back(std::move(found));
  }
  std::sort(result.begin(), result.end(),
            [](const TargetSymbol& a, const TargetSymbol& b) { return a.begin < b.begin; });
  return result;
}

}  // namespace gpuidle::cli
