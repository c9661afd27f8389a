// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/symbols/elf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gpuidle::symbols {
namespace {

using base::Status;
using base::StatusCode;

// A sparse file can announce any size; the largest string table met so far (a debug build of a deep
// learning framework) has a few hundred MiB.
constexpr std::uint64_t kMaxSectionBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxNoteBytes = std::uint64_t{1} << 20;

Status error_of(int error, const std::string& path) {
  const std::string text = "cannot open " + path + ": " + std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) return {StatusCode::not_found, text};
  if (error == EACCES || error == EPERM) return {StatusCode::permission_denied, text};
  return {StatusCode::io_error, text};
}

// The descriptor of the GNU build-id note in a run of notes, "" if there is none. Other notes of
// type 3 exist (stapsdt), so the owner's name decides as well.
std::string build_id_in(const std::string& notes) {
  std::size_t at = 0;
  while (notes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    at += sizeof(note);
    const std::size_t name_bytes = (std::size_t{note.n_namesz} + 3) & ~std::size_t{3};
    const std::size_t descriptor_bytes = (std::size_t{note.n_descsz} + 3) & ~std::size_t{3};
    if (name_bytes > notes.size() - at) return "";
    const std::string_view name(notes.data() + at, note.n_namesz);
    at += name_bytes;
    if (note.n_descsz > notes.size() - at) return "";
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4)) {
      return notes.substr(at, note.n_descsz);
    }
    at += std::min(descriptor_bytes, notes.size() - at);
  }
  return "";
}

SymbolRank rank_of(const Elf64_Sym& symbol) {
  switch (ELF64_ST_BIND(symbol.st_info)) {
    case STB_LOCAL:
      return SymbolRank::local;
    case STB_WEAK:
      return SymbolRank::weak;
    default:
      return SymbolRank::global;
  }
}

bool is_function(const Elf64_Sym& symbol) {
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS) return false;
  const auto type = ELF64_ST_TYPE(symbol.st_info);
  // NOTYPE is what assembly leaves behind where nobody wrote a .type directive.
  return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

}  // namespace

base::Result<ElfFile> ElfFile::open(const std::string& path) {
  // O_NONBLOCK: a path of a recording may name a FIFO, and opening one would wait for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return error_of(errno, path);
  struct stat file {};
  const bool is_known = ::fstat(fd, &file) == 0;
  ElfFile elf(fd, is_known && file.st_size > 0 ? static_cast<std::uint64_t>(file.st_size) : 0);
  if (!is_known || !S_ISREG(file.st_mode)) {
    return Status(StatusCode::wrong_format, path + " is not a regular file");
  }
  const Status status = elf.read_headers();
  if (!status.ok()) return Status(status.code(), path + " " + status.message());
  return elf;
}

ElfFile::ElfFile(ElfFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_bytes_(other.size_bytes_),
      header_(other.header_),
      sections_(std::move(other.sections_)),
      section_names_(std::move(other.section_names_)),
      string_tables_(std::move(other.string_tables_)) {}

ElfFile::~ElfFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool ElfFile::lies_inside(std::uint64_t offset, std::uint64_t size) const {
  return offset <= size_bytes_ && size <= size_bytes_ - offset;
}

bool ElfFile::read(std::uint64_t offset, std::uint64_t size, void* target) const {
  if (!lies_inside(offset, size)) return false;
  auto* bytes = static_cast<char*>(target);
  while (size > 0) {
    const ssize_t count = ::pread(fd_, bytes, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::uint64_t>(count);
  }
  return true;
}

bool ElfFile::read_section(const Elf64_Shdr& section, std::string& content) const {
  if (section.sh_type == SHT_NOBITS || section.sh_size > kMaxSectionBytes ||
      !lies_inside(section.sh_offset, section.sh_size)) {
    return false;
  }
  content.resize(section.sh_size);
  return read(section.sh_offset, section.sh_size, content.data());
}

base::Status ElfFile::read_headers() {
  if (!read(0, sizeof(header_), &header_)) return {StatusCode::truncated, "is too short for ELF"};
  if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
      header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
    return {StatusCode::wrong_format, "is not a 64-bit little-endian ELF file"};
  }
  if (header_.e_shoff == 0) return {};  // no sections: nothing to name, but a build id may be there
  Elf64_Shdr first{};
  if (header_.e_shentsize != sizeof(first) || !read(header_.e_shoff, sizeof(first), &first)) {
    return {StatusCode::truncated, "ends before its section headers"};
  }
  // Counts that do not fit the header's 16 bits lie in the first section header.
  const std::uint64_t count = header_.e_shnum != 0 ? header_.e_shnum : first.sh_size;
  if (count > (size_bytes_ - header_.e_shoff) / sizeof(first)) {
    return {StatusCode::truncated, "ends before its section headers"};
  }
  sections_.resize(count);
  if (!read(header_.e_shoff, count * sizeof(first), sections_.data())) {
    return {StatusCode::io_error, "cannot be read"};
  }
  const std::uint64_t names = header_.e_shstrndx == SHN_XINDEX ? first.sh_link : header_.e_shstrndx;
  if (names >= count || !read_section(sections_[names], section_names_)) section_names_.clear();
  return {};
}

std::string ElfFile::read_build_id() const {
  // Sections first: in a separate debug file the program headers still point to where the notes
  // were in the stripped file.
  for (const Elf64_Shdr& section : sections_) {
    std::string notes;
    if (section.sh_type != SHT_NOTE || section.sh_size > kMaxNoteBytes ||
        !read_section(section, notes)) {
      continue;
    }
    if (std::string id = build_id_in(notes); !id.empty()) return id;
  }
  if (header_.e_phentsize != sizeof(Elf64_Phdr)) return "";
  for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (header_.e_phoff > size_bytes_ ||
        !read(header_.e_phoff + i * sizeof(segment), sizeof(segment), &segment)) {
      return "";
    }
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    std::string notes(segment.p_filesz, '\0');
    if (!read(segment.p_offset, segment.p_filesz, notes.data())) continue;
    if (std::string id = build_id_in(notes); !id.empty()) return id;
  }
  return "";
}

void ElfFile::read_symbol_table(const Elf64_Shdr& table, SymbolIndex& index) {
  std::string symbols;
  std::string names;
  if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= sections_.size() ||
      !read_section(table, symbols) || !read_section(sections_[table.sh_link], names)) {
    return;
  }
  const std::string& kept = string_tables_.emplace_back(std::move(names));
  for (std::size_t at = 0; symbols.size() - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, symbols.data() + at, sizeof(symbol));
    if (!is_function(symbol) || symbol.st_name >= kept.size()) continue;
    const char* const begin = kept.data() + symbol.st_name;
    std::string_view name(begin, ::strnlen(begin, kept.size() - symbol.st_name));
    name = name.substr(0, name.find('@'));  // .symtab appends the version: memcpy@@GLIBC_2.14
    index.add(symbol.st_value, symbol.st_size, rank_of(symbol), name);
  }
}

void ElfFile::read_symbols(SymbolIndex& index) {
  for (const Elf64_Shdr& section : sections_) {
    if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) {
      read_symbol_table(section, index);
    }
  }
}

bool ElfFile::is_whole() const {
  return std::all_of(sections_.begin(), sections_.end(), [this](const Elf64_Shdr& section) {
    return section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL ||
           (section.sh_size <= kMaxSectionBytes && lies_inside(section.sh_offset, section.sh_size));
  });
}

bool ElfFile::has_section(std::string_view name) const {
  return std::any_of(sections_.begin(), sections_.end(), [&](const Elf64_Shdr& section) {
    if (section.sh_type == SHT_NOBITS || section.sh_name >= section_names_.size()) return false;
    const char* const begin = section_names_.data() + section.sh_name;
    return std::string_view(begin, ::strnlen(begin, section_names_.size() - section.sh_name)) ==
           name;
  });
}

}  // namespace gpuidle::symbols
