// SPDX-License-Identifier: Apache-2.0
//
// One recording of a running process, from the request to the finished trace, through the control
// block alone. Fed by cmd_attach.cpp; the recorder must be in the process already.
#pragma once

#include <cstdint>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/control/block_client.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {

struct AttachRequest {
  std::int64_t duration_ns = 0;  ///< 0 = until Ctrl-C or the end of the process
  std::string output;            ///< pattern, "" = the recorder's own setting
  bool is_quiet = false;
};

/// The trace of a process as this command can open it: through the process's own root, which is
/// held open so that a container's file can be read when the process is gone.
class TraceLocation {
 public:
  explicit TraceLocation(const ProcessFacts& process);
  ~TraceLocation();
  TraceLocation(const TraceLocation&) = delete;
  TraceLocation& operator=(const TraceLocation&) = delete;

  /// Where to open `path` of the process. Errors: not_found; permission_denied, if what is there is
  /// not a file of the process's user.
  base::Result<std::string> open_path(const std::string& path) const;

 private:
  uid_t user_;
  int root_ = -1;  // -1: the process sees what we see
};

/// Records and waits: for the duration, Ctrl-C (SIGINT, SIGTERM, SIGHUP) or the end of the process.
/// Returns the path of the trace as the process sees it, once it is whole. Says on stderr what it
/// does. Errors: unavailable with the recorder's reason; io_error, if it does not answer.
base::Result<std::string> record_process(const control::BlockClient& client,
                                         const ProcessFacts& process, const AttachRequest& request);

/// Ends the recording of a process and waits until its trace is whole; the trace's path.
base::Result<std::string> end_recording(const control::BlockClient& client,
                                        const ProcessFacts& process);

}  // namespace gpuidle::cli
