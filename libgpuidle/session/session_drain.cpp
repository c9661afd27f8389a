// SPDX-License-Identifier: Apache-2.0
//
// The drain thread of a session: from rings and CUPTI's buffers into the file, until the end of the
// recording. Everything here runs on that thread.
#include <exception>
#include <utility>

#include "libgpuidle/base/log.h"
#include "libgpuidle/base/own_thread.h"
#include "libgpuidle/cupti/cupti_source.h"
#include "libgpuidle/record/gate.h"
#include "libgpuidle/record/host_call_recorder.h"
#include "libgpuidle/session/session.h"
#include "libgpuidle/session/session_parts.h"
#include "libgpuidle/stacks/python_frames.h"
#include "libgpuidle/stacks/stall_sampler.h"

namespace gpuidle::session {
namespace {

// How long the drain thread sleeps between two looks at the rings: at 300,000 calls/s a ring of
// 512 KiB fills in 55 ms.
constexpr std::int64_t kTick_ns = 20'000'000;
// The host's exit waits this long at most for the last flush.
constexpr std::int64_t kLastFlushTimeout_ns = 1'200'000'000;
constexpr std::int64_t kSamplerTimeout_ns = 100'000'000;
// A flush that has not returned for this long is said to hang.
constexpr std::int64_t kFlushHang_ns = 5'000'000'000;
// Device records come when a buffer is flushed; before this much time has passed since the flush,
// late ones are still expected.
constexpr std::int64_t kLateness_ns = 1'000'000'000;
// While nothing happens, the file is told this often that recording goes on.
constexpr std::int64_t kHeartbeat_ns = 1'000'000'000;
// Records that may wait for the next turn to be written: encoding this many takes 10 to 20 ms, in
// which a thread at 300,000 calls/s does not fill its ring, and they take 3 MB.
constexpr std::size_t kMaxWaitingRecords = 32 * 1024;

}  // namespace

void Session::drain_loop(void* self) {
  auto* session = static_cast<Session*>(self);
  // The last border: out of memory here must end the recording, not the host.
  try {
    session->loop();
  } catch (const std::exception& error) {
    record::g_gate.close();
    base::log_line(base::LogLevel::error, "recording ends early: %s", error.what());
    session->signal_end();
  }
}

void Session::loop() {
  Parts& parts = *parts_;
  parts.last_write_ns = record::host_now_ns();
  parts.last_good_flush_ns = parts.last_write_ns;
  std::int64_t next_flush_ns = parts.last_write_ns;
  std::int64_t next_reclaim_ns = parts.last_write_ns;
  const std::int64_t interval_ns = std::int64_t{parts.config.flush_interval_ms} * 1'000'000;
  while (finishing_.load(std::memory_order_acquire) == 0) {
    base::futex_wait(wake_, wake_.load(std::memory_order_relaxed), kTick_ns);
    update_stopped_spans();
    note_yield();
    parts.host->drain(parts.slice);
    drain_samples();
    if (parts.device) parts.device->drain(parts.slice, parts.session_start_ns);
    const std::int64_t now_ns = record::host_now_ns();
    if (parts.slice.activities.size() + parts.slice.calls.size() > kMaxWaitingRecords)
      write(now_ns);
    if (parts.flush_is_pending &&
        cupti::CuptiSource::instance().flushes_done() == parts.flush_number) {
      on_flush_done();
      write(now_ns);
    }
    if (now_ns >= next_flush_ns) {
      next_flush_ns = now_ns + interval_ns;
      on_flush_due(now_ns);
    }
    if (record::g_recorder.take_crowded() || now_ns >= next_reclaim_ns) {
      next_reclaim_ns = now_ns + 1'000'000'000;
      record::g_recorder.reclaim_dead_threads();
    }
  }
  update_stopped_spans();
  if (parts.device) last_flush();
  stacks::StallSampler::instance().stop(kSamplerTimeout_ns);
  parts.host->drain(parts.slice);
  drain_samples();
  if (parts.device) {
    parts.device->drain(parts.slice, parts.session_start_ns);
    parts.device->finish(parts.gap_threshold_ns, parts.slice);
    note_yield();
    if (const std::int64_t since_ns = cupti::CuptiSource::instance().yielded_ns(); since_ns != 0) {
      const model::StringId reason = parts.tables.intern("another profiler has CUPTI");
      parts.slice.unobserved.push_back({since_ns, record::host_now_ns(), reason});
    }
  }
  write(record::host_now_ns());
  close_file();
  // The seat goes back to whoever wants it; at the end of the process CUPTI is left alone.
  if (ending_.load() == 0) cupti::CuptiSource::instance().give_up();
  signal_end();
}

void Session::update_stopped_spans() {
  Parts& parts = *parts_;
  {
    const std::lock_guard<std::mutex> lock(parts.spans_mutex);
    if (parts.new_spans.empty()) return;
    const model::StringId reason = parts.tables.intern("stopped by the program");
    for (const auto& [start_ns, end_ns] : parts.new_spans) {
      parts.spans.push_back({start_ns, end_ns, reason});
      parts.slice.unobserved.push_back(parts.spans.back());
    }
    parts.new_spans.clear();
  }
  if (parts.device) parts.device->set_stopped(parts.spans);
}

// The device is not watched from then on; host calls go on by the hooks, where we are preloaded.
void Session::note_yield() {
  Parts& parts = *parts_;
  const cupti::CuptiSource& source = cupti::CuptiSource::instance();
  if (!parts.device || parts.has_noted_yield || source.yielded_ns() == 0) return;
  parts.has_noted_yield = true;
  const std::string why_no_calls = start_interposition();
  parts.info.warnings.push_back("CUPTI was handed over to " + std::string(source.yielded_to()) +
                                ", the device is not recorded from there on" +
                                (why_no_calls.empty() ? "" : "; " + why_no_calls));
}

void Session::on_flush_due(std::int64_t now_ns) {
  Parts& parts = *parts_;
  if (!parts.device) {
    write(now_ns);
    return;
  }
  parts.device->sample_clock();
  if (!parts.flush_is_pending) {
    parts.flush_number = cupti::CuptiSource::instance().request_flush(false);
    parts.flush_requested_ns = now_ns;
    parts.flush_is_pending = true;
    return;  // written when the flush has returned, a tick from now
  }
  if (now_ns - parts.flush_requested_ns > kFlushHang_ns) {
    static base::LogKind hang;
    base::log_once(hang, base::LogLevel::warning,
                   "CUPTI's flush has not returned for %lld s; host calls are still recorded, "
                   "device activity is not",
                   static_cast<long long>(kFlushHang_ns / 1'000'000'000));
  }
  write(now_ns);
}

void Session::on_flush_done() {
  Parts& parts = *parts_;
  parts.flush_is_pending = false;
  // Everything that had ended when the previous flush was asked for has been delivered by now.
  const std::int64_t watermark_ns = parts.last_good_flush_ns - kLateness_ns;
  parts.last_good_flush_ns = parts.flush_requested_ns;
  parts.device->drain(parts.slice, parts.session_start_ns);
  parts.device->advance(watermark_ns, parts.gap_threshold_ns, parts.slice);
}

void Session::last_flush() {
  Parts& parts = *parts_;
  cupti::CuptiSource& source = cupti::CuptiSource::instance();
  const std::int64_t asked_ns = record::host_now_ns();
  if (ending_.load() == 0) {
    // The flush gives what has ended by now; of what ends while it runs, it may give a part.
    parts.end_ns = asked_ns;
    parts.device->set_end(asked_ns);
  }
  if (source.wait_for_flush(source.request_flush(true), kLastFlushTimeout_ns)) {
    parts.device->sample_clock();
    return;
  }
  // What ended after the last flush that returned is still inside CUPTI.
  parts.slice.unobserved.push_back({parts.last_good_flush_ns, record::host_now_ns(),
                                    parts.tables.intern("CUPTI's flush did not return")});
  warn("CUPTI's last flush did not return; device activity of the last %.1f s is missing",
       static_cast<double>(asked_ns - parts.last_good_flush_ns) * 1e-9);
}

void Session::drain_samples() {
  stacks::StallSampler& sampler = stacks::StallSampler::instance();
  if (sampler.is_started()) parts_->host->drain_samples(sampler.ring(), parts_->slice);
}

void Session::note_sampler() {
  const char* const restriction = stacks::StallSampler::instance().restriction();
  if (parts_->has_noted_sampler || restriction[0] == '\0') return;
  parts_->has_noted_sampler = true;
  warn("some threads are looked at without their stacks while they are away from CUDA: %s",
       restriction);
  parts_->info.warnings.push_back(std::string("samples without stacks: ") + restriction);
}

void Session::note_python_frames() {
  const char* const reason = stacks::PythonFrames::off_reason();
  if (parts_->has_noted_python || reason[0] == '\0') return;
  parts_->has_noted_python = true;
  warn("call stacks are recorded without Python frames: %s", reason);
  parts_->info.warnings.push_back(std::string("no Python frames: ") + reason);
}

void Session::count_python_frames() {
  const stacks::PythonCounts counts = stacks::PythonFrames::counts();
  std::vector<std::string>& warnings = parts_->info.warnings;
  if (counts.broken != 0) {
    warnings.push_back("Python frames end early in " + std::to_string(counts.broken) + " of " +
                       std::to_string(counts.stacks) + " call stacks");
  }
  if (counts.unnamed_frames != 0) {
    warnings.push_back(std::to_string(counts.unnamed_frames) +
                       " Python frames have no name: the program makes more functions than the "
                       "recorder keeps");
  }
}

void Session::write(std::int64_t now_ns) {
  Parts& parts = *parts_;
  note_python_frames();
  note_sampler();
  if (parts.has_failed) {
    parts.slice.clear();
    return;
  }
  model::Losses losses;
  parts.host->count_losses(losses);
  const stacks::SamplerLosses samples = stacks::StallSampler::instance().losses();
  losses.count[static_cast<std::size_t>(model::LossReason::sample_dropped)] = samples.dropped;
  losses.count[static_cast<std::size_t>(model::LossReason::sample_moved)] = samples.moved;
  losses.count[static_cast<std::size_t>(model::LossReason::sample_unanswered)] = samples.unanswered;
  if (parts.device) parts.device->count_losses(losses);
  parts.info.losses = losses;
  parts.info.launch_calls = parts.host->launches();
  parts.info.recording_end_ns = now_ns;
  publish_counters(now_ns);
  base::Status status;
  if (!parts.slice.empty()) {
    parts.last_write_ns = now_ns;
    status = parts.writer->write(parts.tables, parts.slice, losses);
  } else if (now_ns - parts.last_write_ns >= kHeartbeat_ns) {
    parts.last_write_ns = now_ns;
    status = parts.writer->write_info(parts.info);
  }
  parts.slice.clear();
  if (status.ok()) return;
  parts.has_failed = true;
  record::g_gate.close();
  cupti::CuptiSource::instance().give_up();
  base::log_line(base::LogLevel::error,
                 "%s; recording ends here, what was written before stays readable",
                 status.message().c_str());
}

void Session::close_file() {
  Parts& parts = *parts_;
  if (!parts.has_failed && parts.writer != nullptr) {
    parts.info.recording_end_ns = parts.end_ns != 0 ? parts.end_ns : record::host_now_ns();
    count_python_frames();
    const base::Status status = parts.writer->finish(parts.info);
    if (!status.ok()) base::log_line(base::LogLevel::error, "%s", status.message().c_str());
  }
}

void Session::publish_counters(std::int64_t now_ns) {
  Parts& parts = *parts_;
  control::Counters counters;
  counters.counted_ns = now_ns;
  counters.calls = parts.host->enqueued();
  counters.losses = parts.info.losses.total();
  counters.file_bytes = parts.writer->bytes_written();
  std::vector<control::DeviceTotals> devices;
  if (parts.device) {
    counters.activities = parts.device->activities();
    devices = parts.device->totals();
  }
  counters.devices = devices.data();
  counters.device_count = devices.size();
  parts.door.block().publish(counters);
}

}  // namespace gpuidle::session
