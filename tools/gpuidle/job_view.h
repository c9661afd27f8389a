// SPDX-License-Identifier: Apache-2.0
//
// From several files, or a folder, to the report on one job. Used by `report`.
#pragma once

#include <string>
#include <vector>

#include "tools/gpuidle/recording_view.h"

namespace gpuidle::cli {

/// True if the paths name more than one recording: several, or a folder.
bool is_job(const std::vector<std::string>& paths);

/// Opens and analyses one file after the other, prints to stdout; the exit code.
int show_job(const RecordingView& view);

}  // namespace gpuidle::cli
