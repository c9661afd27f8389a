// SPDX-License-Identifier: Apache-2.0
//
// Puts libgpuidle.so into a process that runs already: one thread is stopped where it holds no
// lock, made to open the library and to start the recorder's thread, and put back as it was. All
// other threads run on. Feeds cmd_attach.cpp; knows nothing of recordings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "libgpuidle/base/status.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {

struct Injection {
  std::int64_t stopped_ns = 0;  ///< how long the borrowed thread did not run its own code, longest
  std::int64_t all_ns = 0;      ///< from the first look to the last
  std::uint32_t probes = 0;     ///< threads that were stopped for a moment and found busy
  pid_t tid = 0;                ///< the thread that was borrowed
};

/// Works in a process of its own, which signals to this one do not end. `library` is the path of
/// libgpuidle.so here. Errors: as refuse_injection(); unavailable with the reason otherwise, the
/// process then runs on as before.
base::Result<Injection> inject(const ProcessFacts& process, const std::string& library);

/// Puts a thread back that a killed command left borrowed. True: there was one. Errors: as above.
base::Result<bool> repair(const ProcessFacts& process);

}  // namespace gpuidle::cli
