// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/symbols/line_table.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace gpuidle::symbols {

struct LineTable::State {
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    Dwarf_Off unit;  // offset of the compile unit's DIE
  };
  Elf* elf = nullptr;
  Dwarf* dwarf = nullptr;
  std::vector<Range> ranges;  // sorted by begin

  ~State() {
    if (dwarf != nullptr) dwarf_end(dwarf);
    if (elf != nullptr) elf_end(elf);
  }
  // libdw's own address lookup needs .debug_aranges, which clang does not write; the units' own
  // ranges are always there.
  void collect_ranges();
};

void LineTable::State::collect_ranges() {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  std::uint8_t unit_type = 0;
  while (dwarf_get_units(dwarf, unit, &unit, nullptr, &unit_type, &die, nullptr) == 0) {
    if (unit_type != DW_UT_compile && unit_type != DW_UT_skeleton) continue;
    Dwarf_Addr base = 0;
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    std::ptrdiff_t position = 0;
    while ((position = dwarf_ranges(&die, position, &base, &begin, &end)) > 0) {
      if (begin < end) ranges.push_back({begin, end, dwarf_dieoffset(&die)});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

namespace {

struct CallSite {
  const char* file = nullptr;
  std::uint32_t line = 0;
};

// Where the code of an inlined function was called from, in terms of the unit's list of files.
std::optional<CallSite> call_site_of(Dwarf_Die* unit, Dwarf_Die* inlined) {
  Dwarf_Attribute attribute;
  Dwarf_Word line = 0;
  Dwarf_Word file = 0;
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) != 0 ||
      dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) != 0 ||
      dwarf_getsrcfiles(unit, &files, &count) != 0 || file >= count || line == 0 ||
      line > UINT32_MAX) {
    return std::nullopt;
  }
  const char* const name = dwarf_filesrc(files, file, nullptr, nullptr);
  if (name == nullptr) return std::nullopt;
  return CallSite{name, static_cast<std::uint32_t>(line)};
}

// The line of the function that has a symbol: code at `address` may be that of a function inlined
// into it, of one inlined into that, and so on.
std::optional<CallSite> outermost_call_site(Dwarf_Die* unit, std::uint64_t address) {
  Dwarf_Die* scopes = nullptr;  // innermost first
  const int count = dwarf_getscopes(unit, address, &scopes);
  std::optional<CallSite> found;
  for (int i = 0; i < count && dwarf_tag(&scopes[i]) != DW_TAG_subprogram; ++i) {
    if (dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine) found = call_site_of(unit, &scopes[i]);
  }
  std::free(scopes);
  return found;
}

}  // namespace

LineTable::LineTable(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineTable::~LineTable() = default;

std::unique_ptr<LineTable> LineTable::open(int fd) {
  if (elf_version(EV_CURRENT) == EV_NONE) return nullptr;
  auto state = std::make_unique<State>();
  state->elf = elf_begin(fd, ELF_C_READ, nullptr);
  if (state->elf == nullptr) return nullptr;
  state->dwarf = dwarf_begin_elf(state->elf, DWARF_C_READ, nullptr);
  if (state->dwarf == nullptr) return nullptr;
  state->collect_ranges();
  if (state->ranges.empty()) return nullptr;
  return std::unique_ptr<LineTable>(new LineTable(std::move(state)));
}

std::optional<LineTable::Place> LineTable::find(std::uint64_t address) {
  const auto& ranges = state_->ranges;
  auto it = std::upper_bound(
      ranges.begin(), ranges.end(), address,
      [](std::uint64_t value, const State::Range& range) { return value < range.begin; });
  if (it == ranges.begin() || address >= (--it)->end) return std::nullopt;
  Dwarf_Die unit;
  if (dwarf_offdie(state_->dwarf, it->unit, &unit) == nullptr) return std::nullopt;
  if (const auto outer = outermost_call_site(&unit, address)) {
    return Place{outer->file, outer->line};
  }
  Dwarf_Line* const row = dwarf_getsrc_die(&unit, address);
  int line = 0;
  if (row == nullptr || dwarf_lineno(row, &line) != 0 || line <= 0) return std::nullopt;
  const char* const file = dwarf_linesrc(row, nullptr, nullptr);
  if (file == nullptr) return std::nullopt;
  return Place{file, static_cast<std::uint32_t>(line)};
}

}  // namespace gpuidle::symbols
