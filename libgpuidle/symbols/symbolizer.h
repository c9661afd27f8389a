// SPDX-License-Identifier: Apache-2.0
//
// Frames of a recording become names that a person can look up: function, object file, source line.
// Native frames are named from the object files as they lie on this machine, and only from those
// that carry the build id which the recorder saw; Python and foreign frames bring their names
// along. Feeds the report, gap and dump commands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "libgpuidle/model/tables.h"

namespace gpuidle::symbols {

class SymbolModule;

struct ResolvedFrame {
  /// Demangled function name without its parameters; "<module base name>+0x<offset from the
  /// module's begin>" where no symbol covers the address; "0x<address>" where the module is not
  /// known either. Never empty.
  std::string function;
  std::string module;  ///< path of the object file as recorded; "" for Python, foreign, unknown
  std::string file;    ///< source file as the debug information or Python names it; "" = unknown
  std::uint32_t line = 0;  ///< 1-based; 0 = not known
  /// True if the name is certain: the address lies inside the symbol's size, or the name was
  /// recorded as such (Python, foreign). False for offsets and for symbols without a size.
  bool is_exact = false;
};

/// Context: tool; not thread-safe. Opens each object file at most once and lazily, so a recording
/// whose stacks are not shown costs nothing.
class Symbolizer {
 public:
  /// `tables` must outlive this object. `debug_directory` holds `.build-id/xx/yyyy.debug` files.
  explicit Symbolizer(const model::Tables& tables, std::string debug_directory = "/usr/lib/debug");
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  /// The name of a frame. Never fails: what is not known is said in the fields. The reference stays
  /// valid as long as this object. Native addresses are return addresses and looked up at -1.
  const ResolvedFrame& resolve(model::FrameId frame);

  /// One line for each object file that could not be used, or only with a reservation, among those
  /// that resolve() needed so far (missing, other build id, damaged, no build id, no symbols).
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  ResolvedFrame resolve_native(const model::Frame& frame);
  SymbolModule& module_of(model::ModuleId id);

  const model::Tables& tables_;
  std::string debug_directory_;
  std::vector<std::unique_ptr<SymbolModule>> modules_;  // by ModuleId, opened on first use
  std::unordered_map<model::FrameId, ResolvedFrame> frames_;
  std::vector<std::string> warnings_;
};

}  // namespace gpuidle::symbols
