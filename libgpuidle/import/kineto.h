// SPDX-License-Identifier: Apache-2.0
//
// Reads Kineto traces (the PyTorch profiler's JSON, Chrome trace-event form) of all ages. Fed by
// open_recording() with the text of a file, feeds the analysis.
#pragma once

#include <memory>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/import/padded_text.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::import {

/// Makes a recording of `text`; `path` is for messages only. Damage costs the rows it hits: what
/// can be read is a recording with a warning. Times stay in the file's own clock. Errors:
/// wrong_format (JSON, but no trace), truncated or corrupt (damaged before the first row), io_error
/// (no memory, or more than 4 GiB of text). Context: tool.
base::Result<std::unique_ptr<model::Recording>> read_kineto(PaddedText text,
                                                            const std::string& path);

}  // namespace gpuidle::import
