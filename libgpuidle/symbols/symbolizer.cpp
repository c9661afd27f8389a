// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/symbols/symbolizer.h"

#include <cinttypes>
#include <cstdio>
#include <optional>
#include <utility>

#include "libgpuidle/symbols/symbol_module.h"

namespace gpuidle::symbols {
namespace {

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, value);
  return text;
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

Symbolizer::Symbolizer(const model::Tables& tables, std::string debug_directory)
    : tables_(tables), debug_directory_(std::move(debug_directory)) {}

Symbolizer::~Symbolizer() = default;

const ResolvedFrame& Symbolizer::resolve(model::FrameId id) {
  const auto [it, is_new] = frames_.try_emplace(id);
  ResolvedFrame& resolved = it->second;
  if (!is_new) return resolved;
  const model::Frame unknown;
  const model::Frame& frame = id < tables_.frames().size() ? tables_.frames()[id] : unknown;
  if (frame.kind == model::Frame::Kind::python || frame.kind == model::Frame::Kind::symbolic) {
    resolved.function = std::string(tables_.string(frame.function));
    resolved.file = std::string(tables_.string(frame.file));
    resolved.line = frame.line;
    resolved.is_exact = !resolved.function.empty();
    if (resolved.function.empty()) resolved.function = "?";
  } else {
    resolved = resolve_native(frame);
  }
  return resolved;
}

SymbolModule& Symbolizer::module_of(model::ModuleId id) {
  if (modules_.size() <= id) modules_.resize(id + std::size_t{1});
  std::unique_ptr<SymbolModule>& opened = modules_[id];
  if (!opened) {
    const model::Module& module = tables_.modules()[id];
    opened = std::make_unique<SymbolModule>(std::string(tables_.string(module.path)),
                                            module.build_id, debug_directory_);
    if (!opened->warning().empty()) warnings_.push_back(opened->warning());
  }
  return *opened;
}

ResolvedFrame Symbolizer::resolve_native(const model::Frame& frame) {
  ResolvedFrame resolved;
  if (frame.module == 0 || frame.module >= tables_.modules().size()) {
    resolved.function = hexadecimal(frame.address);
    return resolved;
  }
  const model::Module& module = tables_.modules()[frame.module];
  resolved.module = std::string(tables_.string(module.path));
  SymbolModule& opened = module_of(frame.module);
  // A return address is the instruction *after* the call; behind a call that never returns it even
  // belongs to the next function.
  const std::uint64_t call_address = frame.address - 1;
  if (const std::optional<SymbolModule::Name> name = opened.name_of(call_address)) {
    resolved.function = name->function;
    resolved.is_exact = name->is_exact;
  } else {
    const std::uint64_t offset = frame.address + module.load_bias - module.begin_address;
    resolved.function = base_name(resolved.module) + "+" + hexadecimal(offset);
  }
  if (const std::optional<LineTable::Place> place = opened.place_of(call_address)) {
    resolved.file = place->file;
    resolved.line = place->line;
  }
  return resolved;
}

}  // namespace gpuidle::symbols
