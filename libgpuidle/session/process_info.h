// SPDX-License-Identifier: Apache-2.0
//
// What the recorder says about the process it lives in. Read once, when CUDA starts.
#pragma once

#include "libgpuidle/model/recording.h"

namespace gpuidle::session {

/// Program, command line, host, pid, start of the process; what /proc does not tell stays unknown.
/// Context: control.
void describe_process(model::RecordingInfo& info);

/// Name of a thread of this process, "" if it is gone. Context: drain.
std::string thread_name(std::uint32_t tid);

}  // namespace gpuidle::session
