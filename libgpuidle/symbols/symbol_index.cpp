// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/symbols/symbol_index.h"

#include <algorithm>
#include <limits>

namespace gpuidle::symbols {
namespace {

std::size_t leading_underscores(std::string_view name) {
  return std::min(name.find_first_not_of('_'), name.size());
}

}  // namespace

void SymbolIndex::add(std::uint64_t begin, std::uint64_t size, SymbolRank rank,
                      std::string_view name) {
  if (name.empty() || size > std::numeric_limits<std::uint64_t>::max() - begin) return;
  symbols_.push_back({begin, begin + size, 0, name, rank});
}

void SymbolIndex::seal() {
  // Of several names for one range the last one in this order wins: the exported and public one
  // (malloc) over the library's private alias (__libc_malloc).
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end > b.end;  // the innermost comes last
    if (a.rank != b.rank) return a.rank < b.rank;
    const std::size_t a_underscores = leading_underscores(a.name);
    const std::size_t b_underscores = leading_underscores(b.name);
    if (a_underscores != b_underscores) return a_underscores > b_underscores;
    return a.name > b.name;
  });
  std::uint64_t reach = 0;
  for (Symbol& symbol : symbols_) {
    reach = std::max(reach, symbol.end);
    symbol.reach = reach;
  }
}

SymbolIndex::Hit SymbolIndex::find(std::uint64_t address) const {
  const auto after = std::upper_bound(
      symbols_.begin(), symbols_.end(), address,
      [](std::uint64_t value, const Symbol& symbol) { return value < symbol.begin; });
  const auto hit = [this](auto it, bool is_exact) {
    return Hit{it->name, static_cast<std::size_t>(it - symbols_.begin()), is_exact};
  };
  for (auto it = after; it != symbols_.begin();) {
    --it;
    if (address < it->end) return hit(it, true);
    if (it->reach <= address) break;  // nothing earlier reaches this far
  }
  // Hand-written assembly (_start) has labels without a size. Behind a symbol *with* a size there
  // is a function that lost its symbol, and the neighbour's name would be invented.
  if (after == symbols_.begin()) return {};
  const auto previous = after - 1;
  if (previous->end != previous->begin) return {};
  return hit(previous, false);
}

}  // namespace gpuidle::symbols
