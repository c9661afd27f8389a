// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/symbols/line_table.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include <algorithm>
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
  Dwarf_Line* const row = dwarf_getsrc_die(&unit, address);
  int line = 0;
  if (row == nullptr || dwarf_lineno(row, &line) != 0 || line <= 0) return std::nullopt;
  const char* const file = dwarf_linesrc(row, nullptr, nullptr);
  if (file == nullptr) return std::nullopt;
  return Place{file, static_cast<std::uint32_t>(line)};
}

}  // namespace gpuidle::symbols
