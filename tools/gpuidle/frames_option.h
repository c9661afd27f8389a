// SPDX-License-Identifier: Apache-2.0
//
// --frames, the same for every command that shows call stacks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "libgpuidle/report/places.h"

namespace gpuidle::cli {

struct FramesOption {
  std::string word = "folded";

  void add_to(CLI::App& command) {
    command
        .add_option("--frames", word,
                    "Of call stacks show all frames, those of Python or of the user alone, or\n"
                    "all but the interpreter's own (folded)")
        ->check(CLI::IsMember({"folded", "all", "python", "user"}))
        ->capture_default_str();
  }
  report::FrameView view() const {
    if (word == "all") return report::FrameView::all;
    if (word == "python") return report::FrameView::python;
    return word == "user" ? report::FrameView::user : report::FrameView::folded;
  }
};

}  // namespace gpuidle::cli
