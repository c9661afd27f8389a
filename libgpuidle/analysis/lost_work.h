// SPDX-License-Identifier: Apache-2.0
//
// Where device records are missing, a device that seems idle may have been at work: finds the times
// for which that is so, from calls that queued work and have no record. Fed with the recording
// before the analysis proper, and only where records are known to be lost; feeds its ledger.
#pragma once

#include <cstdint>

#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/timeline/intervals.h"

namespace gpuidle::analysis {

struct LostWork {
  std::uint64_t launch_count = 0;  ///< kernel and graph launches without any device record
  /// From each such launch (or the end of the kernel before it, if that is later) to the start of
  /// the next recorded kernel that the same thread launched after it, to the return of the next
  /// synchronisation of the whole device, or to the end; likewise for copies and sets. The
  /// unrecorded work ran in there, if its thread feeds one stream with kernels: which stream it
  /// went to is part of what was lost.
  timeline::IntervalSet spans;
};

/// True if records of device work are known to be missing. Calls that were dropped do not count:
/// without its call a kernel is still seen.
bool lacks_device_records(const model::Losses& losses);

/// Walks the recording twice; memory grows with the number of spans and with one bit per call.
/// Errors: those of the walk; `lost` then holds what was found before. Context: tool.
base::Status find_lost_work(const model::Recording& recording, LostWork* lost);

}  // namespace gpuidle::analysis
