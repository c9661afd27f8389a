// SPDX-License-Identifier: Apache-2.0
//
// Whether a stopped thread may be borrowed: it must not be inside malloc, the loader or whatever
// else holds a lock that opening a library takes, not even further down its stack. Without this
// test about every second busy program locks up at the first attach.
#pragma once

#include <string>

#include "tools/gpuidle/inject/target_layout.h"
#include "tools/gpuidle/inject/target_memory.h"
#include "tools/gpuidle/inject/traced_thread.h"

namespace gpuidle::cli {

/// "" = safe; else why not.
std::string why_not_safe(const TargetMemory& memory, const TargetLayout& layout,
                         const TracedThread& thread, const ThreadContext& context);

}  // namespace gpuidle::cli
