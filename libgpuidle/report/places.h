// SPDX-License-Identifier: Apache-2.0
//
// Which line of the user's program a call stack points to: the innermost frame that belongs neither
// to CUDA nor to the C and C++ libraries, an interpreter or a framework. Feeds both reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "libgpuidle/analysis/frame_work.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/tables.h"
#include "libgpuidle/symbols/symbolizer.h"

namespace gpuidle::report {

/// A call stack as it is shown.
struct Place {
  std::vector<symbols::ResolvedFrame> frames;  ///< innermost first
  std::optional<std::size_t> user_frame;       ///< index of the line to look at; empty: none found
};

/// Which frames of a stack are shown. The line to look at is the innermost of the user's in view.
enum class FrameView : std::uint8_t {
  folded,  ///< all but the frames between an interpreter's functions and the ones it runs
  all,     ///< these as well, and how every thread and program begins
  python,  ///< Python functions alone; stacks without any are shown folded
  user,    ///< the user's own alone; stacks without any are shown folded
};

/// Context: tool.
class Places : public analysis::FrameNames {
 public:
  /// `tables` must outlive this object.
  explicit Places(const model::Tables& tables, FrameView view = FrameView::folded);

  /// Names the frames of a stack that the view shows; no frames if `stack` is 0 or unknown.
  Place of(model::StackId stack);
  /// The same names for the analysis.
  Name name_of(model::FrameId frame) override;
  /// Name of a call; empty if it is not known.
  std::string_view api_name(model::ApiId api) const;
  const std::vector<std::string>& warnings() const { return symbolizer_.warnings(); }

 private:
  bool is_users(const symbols::ResolvedFrame& frame) const;
  bool is_shown(model::FrameId id, const symbols::ResolvedFrame& frame, FrameView view,
                bool has_python) const;
  Place shown_as(FrameView view, const model::FrameId* frames, std::size_t count);

  const model::Tables& tables_;
  FrameView view_;
  symbols::Symbolizer symbolizer_;
  // nvcc gives each kernel a host function of the same name that launches it: no one's own code.
  std::unordered_set<std::string> kernel_names_;
};

/// The place of a group of gaps: where looks found the host, the same however the line in that
/// function differs; else the line of its call. Gaps into which nobody looked go with those that
/// end at the same line and were looked into: looks are a matter of chance.
class GapSites {
 public:
  explicit GapSites(Places* places) : places_(*places) {}

  /// A key for the place of `stack`; `longest` is a gap of the group. Empty if no line is known.
  std::string site_of(model::StackId stack, const std::optional<analysis::Gap>& longest);
  /// To be told of all groups, costliest first, before site_of().
  void note(model::StackId stack, const std::optional<analysis::Gap>& longest);

 private:
  std::string line_key(model::StackId stack, bool is_function);
  Places& places_;
  std::map<std::string, std::string> looked_into_;  // line that ends gaps -> place inside them
};

/// Joins groups whose stacks lead through the same line of the user's program to the same call:
/// they differ in where that line was called from, which matters less than their sum. The stack of
/// the largest one stays. Groups without such a line are joined if their stacks are equal: causes
/// make them several.
std::vector<analysis::GapGroup> joined_by_line(const std::vector<analysis::GapGroup>& groups,
                                               Places& places);

/// "function (file:line)", "function (module)" or "function", within `width` columns; a path that
/// does not fit is cut down to the file's name.
std::string describe(const symbols::ResolvedFrame& frame, std::size_t width);

}  // namespace gpuidle::report
