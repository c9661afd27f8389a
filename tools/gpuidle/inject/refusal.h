// SPDX-License-Identifier: Apache-2.0
//
// Which processes cannot be attached to, and the one line that says why and what would mend it.
// Decided from /proc alone, before anything is stopped.
#pragma once

#include "libgpuidle/base/status.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {

/// Reasons that stand whether or not the recorder is in the process. Errors: not_found (gone or a
/// zombie), permission_denied (another user's), unavailable (stopped: may work later).
base::Status refuse_any(const ProcessFacts& process);

/// Reasons against putting the recorder into the process. Errors: as above, and wrong_format for a
/// process of a kind into which it can never be put.
base::Status refuse_injection(const ProcessFacts& process);

/// What to say when the kernel refuses PTRACE_SEIZE with `reason` (errno), with the fix.
base::Status explain_seize_failure(const ProcessFacts& process, int reason);

}  // namespace gpuidle::cli
