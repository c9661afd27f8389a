// SPDX-License-Identifier: Apache-2.0
//
// Writes our own trace file, append-only: a header, then checksummed chunks as they come, then a
// footer. Fed by the recorder's drain thread and by `gpuidle convert`; schemas/README.md is the
// specification of the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/model/tables.h"

namespace gpuidle::trace {

struct WriterOptions {
  bool compress = true;  ///< zstd for chunks that shrink by it
  int compression_level = 1;
};

/// Context: drain | tool; one thread at a time. Never throws; after the first failed write every
/// later call returns that failure and writes nothing, so that what is on disk stays readable.
class TraceWriter {
 public:
  /// Creates `path` exclusively (O_EXCL, 0600; an existing file is never overwritten) and writes
  /// the header and `info`. Errors: io_error, permission_denied with the path in the message.
  static base::Result<std::unique_ptr<TraceWriter>> create(const std::string& path,
                                                           const model::RecordingInfo& info,
                                                           const WriterOptions& options);
  /// Takes a descriptor that is open for writing and owned by the writer from then on.
  static base::Result<std::unique_ptr<TraceWriter>> adopt(int fd, const std::string& path,
                                                          const model::RecordingInfo& info,
                                                          const WriterOptions& options);
  ~TraceWriter();

  /// Appends the rows of `tables` that were not written yet, then the records of `slice` (any
  /// order; the slice is sorted in place). An empty slice with no new rows writes nothing.
  /// `losses` are totals so far. Each call's chunks reach the kernel before it returns, so a
  /// SIGKILL afterwards loses nothing of them.
  base::Status write(const model::Tables& tables, model::Slice& slice, const model::Losses& losses);

  /// Repeats `info` with what was learned since create() (source, reason, devices' end), e.g. when
  /// the source of truth steps down. The last one written counts.
  base::Status write_info(const model::RecordingInfo& info);

  /// Writes the footer (index of chunks, loss ledger, end of recording) and closes the file.
  base::Status finish(const model::RecordingInfo& info);

  std::uint64_t bytes_written() const;

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpuidle::trace
