// SPDX-License-Identifier: Apache-2.0
//
// Reads our own trace file. Feeds the analysis and `gpuidle dump`; an untrusted file can make it
// fail with one line, never crash, hang or allocate more than the file's size justifies.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::trace {

/// True if the first bytes of a file are those of a trace of ours, of whatever version.
bool is_trace(const void* first_bytes, std::size_t count);

/// Opens a trace and reads its dictionaries; records are streamed by visit(). A file without a
/// footer (killed program) or with a torn tail opens with RecordingInfo::end == abrupt and a
/// warning. Errors: not_found, permission_denied, io_error, wrong_format, unsupported_version,
/// truncated (not even the header is whole), corrupt.
/// Context: tool.
base::Result<std::unique_ptr<model::Recording>> open_trace(const std::string& path);

}  // namespace gpuidle::trace
