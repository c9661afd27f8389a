// SPDX-License-Identifier: Apache-2.0
//
// Streams the records of a trace in time order although its chunks overlap in time: chunks are
// loaded when the time of their first record comes up and dropped when their last one is out.
// Feeds the visitors of a recording.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/trace/chunk_file.h"

namespace gpuidle::trace {

/// Delivers all records of the first `chunk_count` chunks. Records with equal starts keep the
/// order of their chunks in the file. Memory: the chunks that overlap in time at any one moment.
/// On damage the records of all chunks before the damaged one are delivered, then the damage is
/// returned; records of later chunks may or may not have been. Errors: as ChunkFile::load().
base::Status merge_records(const ChunkFile& file, std::size_t chunk_count,
                           const model::Tables& tables, model::SliceVisitor& visitor);

}  // namespace gpuidle::trace
