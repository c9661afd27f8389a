// SPDX-License-Identifier: Apache-2.0
//
// From CUPTI's buffers to records: decoded, believed or counted as lost, moved to the host's clock,
// and laid on each device's timeline, which closes the idle gaps while the program runs. Fed by
// cupti/, feeds session.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "libgpuidle/control/block_owner.h"
#include "libgpuidle/cupti/cupti_source.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/timeline/clock_map.h"
#include "libgpuidle/timeline/device_timeline.h"

namespace gpuidle::session {

/// Context: drain.
class DeviceDrain {
 public:
  DeviceDrain(cupti::CuptiSource& source, model::Tables& tables)
      : source_(source), tables_(tables) {}

  /// Ties CUPTI's clock to the host's at this moment. Call at every flush, and once before the
  /// first record is decoded.
  void sample_clock();

  /// Moves the records of all filled buffers to `slice`. What starts outside
  /// [session_start_ns, now] or inside a stopped span does not get in.
  std::size_t drain(model::Slice& slice, std::int64_t session_start_ns);

  /// Closes gaps that end before `watermark_ns`; those of `least_ns` or more go to `slice`.
  void advance(std::int64_t watermark_ns, std::int64_t least_ns, model::Slice& slice);
  void finish(std::int64_t least_ns, model::Slice& slice);

  /// gpuidle_stop() .. gpuidle_start(): device work in there was not asked for.
  void set_stopped(std::vector<model::Unobserved> spans) { stopped_ = std::move(spans); }

  /// The recording ends at this moment, while the program goes on: what ends later is not in it.
  void set_end(std::int64_t end_ns) { end_ns_ = end_ns; }
  /// Earlier recordings of this process began at this moment: what is older than this recording
  /// and not than that is theirs, delivered late, and no loss.
  void set_earlier(std::int64_t since_ns) { earlier_since_ns_ = since_ns; }

  void count_losses(model::Losses& losses);
  std::uint64_t activities() const { return activities_; }
  /// Busy and idle time of each device, as far as it is closed.
  std::vector<control::DeviceTotals> totals() const;

 private:
  void keep_gaps(std::int64_t least_ns, model::Slice& slice);
  void watch_bad_share(std::uint64_t good, std::uint64_t bad);
  bool is_inside_session(const model::DeviceActivity& activity, std::int64_t session_start_ns,
                         std::int64_t now_ns);

  cupti::CuptiSource& source_;
  model::Tables& tables_;
  timeline::ClockMap clock_;
  std::map<std::uint32_t, timeline::DeviceTimeline> timelines_;  // by device
  cupti::DecodedRecords decoded_;
  std::vector<model::RecordedGap> gaps_;
  std::vector<model::Unobserved> stopped_;
  std::int64_t earlier_since_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns_ = std::numeric_limits<std::int64_t>::max();
  model::Losses losses_;
  std::uint64_t activities_ = 0;
  // Since the last look at their share.
  std::uint64_t watched_good_ = 0;
  std::uint64_t watched_bad_ = 0;
};

}  // namespace gpuidle::session
