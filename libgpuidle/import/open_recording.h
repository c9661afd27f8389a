// SPDX-License-Identifier: Apache-2.0
//
// The one door through which tools open a recording: looks at the content, never at the name, and
// hands over to the reader of that format.
#pragma once

#include <memory>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::import {

/// Opens a trace of ours, a Kineto JSON file (plain or gzip) or an Nsight Systems export. Errors:
/// not_found, permission_denied, io_error, truncated, corrupt, unsupported_version, wrong_format
/// (with what was found and which formats are known). A recording without any GPU record is a
/// recording. Context: tool.
base::Result<std::unique_ptr<model::Recording>> open_recording(const std::string& path);

}  // namespace gpuidle::import
