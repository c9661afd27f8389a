// SPDX-License-Identifier: Apache-2.0
//
// What a session is made of; only the session's own source files see it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "libgpuidle/session/attach_door.h"
#include "libgpuidle/session/device_drain.h"
#include "libgpuidle/session/host_drain.h"
#include "libgpuidle/session/session.h"
#include "libgpuidle/trace/trace_writer.h"

namespace gpuidle::session {

struct Session::Parts {
  explicit Parts(Session& session) : door(session) {}

  // Of the process.
  AttachDoor door;
  base::Config config;
  bool has_prepared_stacks = false;
  std::int64_t first_start_ns = 0;  // of the first recording with CUPTI; 0 = there was none

  // Of one recording; reset() makes them as new.
  std::string output;  // pattern
  model::RecordingInfo info;
  model::Tables tables;
  model::Slice slice;
  std::string path;
  std::unique_ptr<trace::TraceWriter> writer;
  std::unique_ptr<HostDrain> host;
  std::unique_ptr<DeviceDrain> device;  // only with CUPTI
  std::int64_t session_start_ns = 0;
  std::int64_t gap_threshold_ns = 0;

  // Flushing, on the drain thread.
  std::uint32_t flush_number = 0;
  bool flush_is_pending = false;
  std::int64_t flush_requested_ns = 0;
  std::int64_t last_good_flush_ns = 0;
  std::int64_t last_write_ns = 0;
  std::int64_t end_ns = 0;  // of the recording, when the program goes on; 0 = not ended
  bool has_failed = false;
  bool has_noted_yield = false;
  bool has_noted_python = false;         // said why there are no Python frames
  bool has_noted_sampler = false;        // said why some samples have no stacks
  std::vector<model::Unobserved> spans;  // in which the program had stopped the recording

  std::mutex spans_mutex;  // start() against the drain thread
  std::vector<std::pair<std::int64_t, std::int64_t>> new_spans;

  void reset() {
    host.reset();
    device.reset();
    writer.reset();
    info = {};
    tables = {};
    slice.clear();
    spans.clear();
    flush_number = 0;
    flush_is_pending = false;
    end_ns = 0;
    has_failed = false;
    has_noted_yield = false;
    has_noted_python = false;
    has_noted_sampler = false;
    const std::lock_guard<std::mutex> lock(spans_mutex);
    new_spans.clear();
  }
};

}  // namespace gpuidle::session
