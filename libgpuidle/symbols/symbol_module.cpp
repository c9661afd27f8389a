// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/symbols/symbol_module.h"

#include <string_view>
#include <utility>

#include "libgpuidle/symbols/demangle.h"

namespace gpuidle::symbols {
namespace {

std::string hex_of(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

}  // namespace

SymbolModule::SymbolModule(const std::string& path, const std::string& build_id,
                           const std::string& debug_directory) {
  // "linux-vdso.so.1" and "[anon]" name no file, and a relative path would be looked up in whatever
  // directory the report happens to run in.
  if (path.empty() || path.front() != '/') return;
  open_object(path, build_id);
  open_debug_file(build_id, debug_directory);
  if (object_) object_->read_symbols(index_);
  if (debug_) debug_->read_symbols(index_);
  index_.seal();
  if (index_.empty() && warning_.empty()) {
    warning_ = path + " has no symbols; its frames are shown as offsets";
  }
}

void SymbolModule::open_object(const std::string& path, const std::string& build_id) {
  base::Result<ElfFile> opened = ElfFile::open(path);
  if (!opened.ok()) {
    warning_ = opened.status().message() + "; its frames are shown as offsets";
    return;
  }
  ElfFile file = opened.take();
  const std::string found = file.read_build_id();
  if (found != build_id) {
    const std::string found_text = found.empty() ? "none" : hex_of(found);
    const std::string recorded_text = build_id.empty() ? "none" : hex_of(build_id);
    warning_ = path + " is not the file that was recorded (build id recorded: " + recorded_text +
               ", found: " + found_text + "); its frames are shown as offsets";
    return;
  }
  if (build_id.empty()) {
    warning_ = path + " has no build id; its names are right only if it has not changed since";
  }
  object_.emplace(std::move(file));
}

void SymbolModule::open_debug_file(const std::string& build_id,
                                   const std::string& debug_directory) {
  const std::string hex = hex_of(build_id);
  if (hex.size() <= 2) return;
  base::Result<ElfFile> opened = ElfFile::open(debug_directory + "/.build-id/" + hex.substr(0, 2) +
                                               "/" + hex.substr(2) + ".debug");
  // Most modules have no debug file; one that is there but damaged is no worse than that.
  if (!opened.ok()) return;
  ElfFile file = opened.take();
  if (file.read_build_id() == build_id) debug_.emplace(std::move(file));
}

std::optional<SymbolModule::Name> SymbolModule::name_of(std::uint64_t address) {
  const SymbolIndex::Hit hit = index_.find(address);
  if (hit.name.empty()) return std::nullopt;
  const auto [it, is_new] = demangled_.try_emplace(hit.symbol);
  if (is_new) it->second = demangle(hit.name);
  return Name{it->second, hit.is_exact};
}

std::optional<LineTable::Place> SymbolModule::place_of(std::uint64_t address) {
  if (!is_line_table_tried_) {
    is_line_table_tried_ = true;
    for (const auto* file : {&debug_, &object_}) {
      if (lines_ || !*file || !(*file)->is_whole()) continue;
      // Without this test libdw would be opened for every stripped library.
      if ((*file)->has_section(".debug_line")) lines_ = LineTable::open((*file)->descriptor());
    }
  }
  return lines_ ? lines_->find(address) : std::nullopt;
}

}  // namespace gpuidle::symbols
