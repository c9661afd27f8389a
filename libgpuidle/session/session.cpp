// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/session/session.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>

#include "libgpuidle/base/log.h"
#include "libgpuidle/base/own_thread.h"
#include "libgpuidle/base/version.h"
#include "libgpuidle/cupti/cupti_choice.h"
#include "libgpuidle/cupti/cupti_source.h"
#include "libgpuidle/intercept/host_call_sink.h"
#include "libgpuidle/record/gate.h"
#include "libgpuidle/record/host_call_recorder.h"
#include "libgpuidle/session/device_drain.h"
#include "libgpuidle/session/host_drain.h"
#include "libgpuidle/session/process_info.h"
#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/host_stack.h"
#include "libgpuidle/stacks/python_frames.h"
#include "libgpuidle/stacks/stall_sampler.h"
#include "libgpuidle/trace/trace_writer.h"

namespace gpuidle::session {
namespace {

// How long the drain thread sleeps between two looks at the rings: at 300,000 calls/s a ring of
// 512 KiB fills in 55 ms.
constexpr std::int64_t kTick_ns = 20'000'000;
// The host's exit waits this long at most for the last flush and for the whole end.
constexpr std::int64_t kLastFlushTimeout_ns = 1'200'000'000;
constexpr std::int64_t kFinishTimeout_ns = 2'000'000'000;
constexpr std::int64_t kSamplerTimeout_ns = 100'000'000;
// A flush that has not returned for this long is said to hang.
constexpr std::int64_t kFlushHang_ns = 5'000'000'000;
// Device records come when a buffer is flushed; before this much time has passed since the flush,
// late ones are still expected.
constexpr std::int64_t kLateness_ns = 1'000'000'000;
// While nothing happens, the file is told this often that recording goes on.
constexpr std::int64_t kHeartbeat_ns = 1'000'000'000;
constexpr std::uint32_t kMaxFileCounter = 1000;
// Records that may wait for the next turn to be written: encoding this many takes 10 to 20 ms, in
// which a thread at 300,000 calls/s does not fill its ring, and they take 3 MB.
constexpr std::size_t kMaxWaitingRecords = 32 * 1024;

}  // namespace

struct Session::Parts {
  base::Config config;
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
  bool has_failed = false;
  bool has_noted_yield = false;
  bool has_noted_python = false;         // said why there are no Python frames
  bool has_noted_sampler = false;        // said why some samples have no stacks
  std::vector<model::Unobserved> spans;  // in which the program had stopped the recording

  std::mutex spans_mutex;  // start() against the drain thread
  std::vector<std::pair<std::int64_t, std::int64_t>> new_spans;
};

Session& Session::instance() {
  alignas(Session) static unsigned char storage[sizeof(Session)];
  static Session* const session = new (storage) Session;
  return *session;
}

void Session::activate() {
  std::uint32_t expected = 0;
  if (!activated_.compare_exchange_strong(expected, 1)) return;
  const int host_errno = errno;
  try {
    begin();
  } catch (const std::exception& error) {  // out of memory: the host must not notice
    cupti::CuptiSource::instance().give_up();
    end_without_file(error.what());
  }
  errno = host_errno;
}

void Session::begin() {
  parts_ = new Parts;
  pid_.store(static_cast<std::int32_t>(getpid()), std::memory_order_relaxed);
  std::vector<std::string> warnings;
  parts_->config = base::Config::from_environment(&warnings);
  base::configure_log(parts_->config.log, parts_->config.log_file.c_str());
  for (const std::string& warning : warnings) {
    base::log_line(base::LogLevel::warning, "%s", warning.c_str());
  }
  model::RecordingInfo& info = parts_->info;
  describe_process(info);
  info.producer = std::string("libgpuidle ") + base::kToolVersion;
  info.detail_level = "full";
  info.settings = parts_->config.effective();
  parts_->session_start_ns = record::host_now_ns();
  info.recording_start_ns = parts_->session_start_ns;
  parts_->gap_threshold_ns = std::int64_t{parts_->config.gap_threshold_us} * 1000;

  // The file first: without one there is no reason to touch CUPTI.
  std::string why_not;
  if (!open_trace(&why_not)) {
    end_without_file(why_not);
    return;
  }
  choose_source();
  if (base::Status status = parts_->writer->write_info(info); !status.ok()) {
    cupti::CuptiSource::instance().give_up();
    end_without_file(status.message());
    return;
  }
  if (info.source == model::Source::off) {
    base::log_line(base::LogLevel::warning, "nothing is recorded: %s", info.source_reason.c_str());
    close_file();
    return;
  }
  if (info.source == model::Source::interposition) {
    base::log_line(base::LogLevel::warning, "no device activity is recorded, host calls only: %s",
                   info.source_reason.c_str());
  }
  pthread_atfork(nullptr, nullptr, [] { Session::instance().forget_in_child(); });
  // Registered after the driver's own handlers, so it runs before them, while CUDA still works.
  std::atexit([] { Session::instance().finish(); });
  start_sampler();
  if (!base::start_own_thread("gpuidle-drain", &Session::drain_loop, this)) {
    cupti::CuptiSource::instance().give_up();
    end_without_file("the system refused a thread");
  } else if (begins_stopped()) {
    stopped_since_ns_.store(parts_->session_start_ns);
  } else {
    epoch_.store(1);
    record::g_gate.open(1);
  }
}

bool Session::begins_stopped() const {
  const std::uint32_t wish = wish_.load();
  if (wish == as_configured) return parts_->config.start == base::StartMode::manual;
  return wish == to_stop;
}

bool Session::is_recording_process() const {
  return pid_.load(std::memory_order_relaxed) == static_cast<std::int32_t>(getpid()) &&
         finishing_.load() == 0 && finished_.load() == 0;
}

void Session::end_without_file(const std::string& why) {
  record::g_gate.close();
  base::log_line(base::LogLevel::error, "nothing is recorded: %s", why.c_str());
  finished_.store(1);
}

bool Session::open_trace(std::string* why_not) {
  base::OutputFields fields = base::OutputFields::of_this_process();
  for (fields.counter = 0; fields.counter < kMaxFileCounter; ++fields.counter) {
    parts_->path = base::expand_output_pattern(parts_->config.output, fields);
    const int fd =
        open(parts_->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0 && errno == EEXIST) continue;  // an earlier program of this pid (exec), or run
    if (fd < 0) {
      *why_not = "cannot create " + parts_->path + ": " + std::strerror(errno);
      return false;
    }
    auto writer = trace::TraceWriter::adopt(fd, parts_->path, parts_->info, {});
    if (!writer.ok()) {
      *why_not = writer.status().message();
      return false;
    }
    parts_->writer = writer.take();
    return true;
  }
  *why_not = "cannot create " + parts_->path + ": it exists, as do " +
             std::to_string(kMaxFileCounter) + " names like it; choose another GPUIDLE_OUTPUT";
  return false;
}

void Session::choose_source() {
  model::RecordingInfo& info = parts_->info;
  const base::SourceLimit limit = parts_->config.source;
  info.source = model::Source::off;
  if (limit == base::SourceLimit::off) {
    info.source_reason = "GPUIDLE_SOURCE=off";
    return;
  }
  if (!record::g_gate.place_on_wiped_page()) {
    info.source_reason = "this kernel cannot wipe a page on fork (Linux 4.14 or newer is needed)";
    return;
  }
  record::choose_host_clock();
  record::RecorderOptions options;
  options.ring_bytes = std::size_t{parts_->config.ring_kib} * 1024;
  options.stack_depth = static_cast<int>(parts_->config.stack_depth);
  options.stack_every = parts_->config.stack_every;
  options.gap_threshold_ns = parts_->gap_threshold_ns;
  options.on_crowded = [] {
    Session& session = Session::instance();
    session.wake_.fetch_add(1);
    base::futex_wake(session.wake_);
  };
  if (parts_->config.stacks) {
    if (stacks::CallStack::prepare()) {
      stacks::PythonFrames::prepare();
      options.capture_stack = &stacks::capture_host_stack;
    } else {
      const std::string why = stacks::CallStack::unavailable_reason();
      base::log_line(base::LogLevel::warning, "no call stacks are recorded: %s", why.c_str());
      info.warnings.push_back("no call stacks: " + why);
    }
  }
  if (!record::g_recorder.prepare(options)) {
    info.source_reason = std::string("no memory for the rings: ") + std::strerror(errno);
    return;
  }
  parts_->host = std::make_unique<HostDrain>(record::g_recorder, parts_->tables);
  parts_->host->sample_clock();

  std::string why_no_cupti = "GPUIDLE_SOURCE=interposition";
  if (limit != base::SourceLimit::interposition) {
    why_no_cupti = start_cupti();
    if (why_no_cupti.empty()) {
      info.source = cupti::CuptiSource::instance().is_shared() ? model::Source::cupti_shared
                                                               : model::Source::cupti;
      return;
    }
  }
  if (limit == base::SourceLimit::cupti) {
    info.source_reason = why_no_cupti;
    return;
  }
  const std::string why_no_hooks = start_interposition();
  if (why_no_hooks.empty()) {
    info.source = model::Source::interposition;
    info.source_reason = why_no_cupti;
  } else {
    info.source_reason = why_no_cupti + "; " + why_no_hooks;
  }
}

std::string Session::start_cupti() {
  cupti::CuptiSource& source = cupti::CuptiSource::instance();
  const base::Status status =
      source.start(parts_->config.cupti_library, cupti::mapped_driver_major());
  if (!status.ok()) return status.message();
  parts_->info.settings.push_back("CUPTI=" + source.release());
  parts_->device = std::make_unique<DeviceDrain>(source, parts_->tables);
  parts_->device->sample_clock();
  return {};
}

std::string Session::start_interposition() {
  // Hooks only see calls if the program's symbols bind to them: preloaded, not merely opened by the
  // driver, however globally. In front of libc means preloaded, so whose dlsym it finds tells.
  Dl_info found{};
  Dl_info own{};
  void* program = dlopen(nullptr, RTLD_NOW);
  const void* first_dlsym = program == nullptr ? nullptr : dlsym(program, "dlsym");
  const bool is_preloaded =
      first_dlsym != nullptr && dladdr(first_dlsym, &found) != 0 &&
      dladdr(reinterpret_cast<const void*>(&Session::drain_loop), &own) != 0 &&
      found.dli_fbase == own.dli_fbase;
  if (program != nullptr) dlclose(program);
  if (!is_preloaded) {
    return "the library was not preloaded, so host calls cannot be seen without CUPTI (use "
           "'gpuidle run' or LD_PRELOAD)";
  }
  static constexpr intercept::HostCallSink kSink = {
      [](std::uint16_t api, model::ApiRole role) noexcept {
        record::g_recorder.enter(api, role, 0);
      },
      [](std::int32_t result) noexcept { record::g_recorder.exit(result); }};
  intercept::g_host_call_sink.store(&kSink, std::memory_order_release);
  return {};
}

void Session::drain_loop(void* self) {
  auto* session = static_cast<Session*>(self);
  // The last border: out of memory here must end the recording, not the host.
  try {
    session->loop();
  } catch (const std::exception& error) {
    record::g_gate.close();
    base::log_line(base::LogLevel::error, "recording ends early: %s", error.what());
    session->finished_.store(1);
    base::futex_wake(session->finished_);
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
  if (source.wait_for_flush(source.request_flush(true), kLastFlushTimeout_ns)) {
    parts.device->sample_clock();
    return;
  }
  // What ended after the last flush that returned is still inside CUPTI.
  parts.slice.unobserved.push_back({parts.last_good_flush_ns, record::host_now_ns(),
                                    parts.tables.intern("CUPTI's flush did not return")});
  base::log_line(base::LogLevel::warning,
                 "CUPTI's last flush did not return; device activity of the last %.1f s is missing",
                 static_cast<double>(asked_ns - parts.last_good_flush_ns) * 1e-9);
}

void Session::start_sampler() {
  const base::Config& config = parts_->config;
  if (!config.stacks || config.sample_rate == 0) return;
  if (stacks::CallStack::unavailable_reason()[0] != '\0') return;
  stacks::SamplerOptions options;
  options.rate_hz = config.sample_rate;
  options.stack_depth = static_cast<int>(config.stack_depth);
  if (stacks::StallSampler::instance().start(options, record::g_recorder)) return;
  base::log_line(base::LogLevel::warning,
                 "threads are not looked at while they are away from "
                 "CUDA: the system refused memory or a thread");
  parts_->info.warnings.push_back("no samples: the system refused memory or a thread");
}

void Session::drain_samples() {
  stacks::StallSampler& sampler = stacks::StallSampler::instance();
  if (sampler.is_started()) parts_->host->drain_samples(sampler.ring(), parts_->slice);
}

void Session::note_sampler() {
  const char* const restriction = stacks::StallSampler::instance().restriction();
  if (parts_->has_noted_sampler || restriction[0] == '\0') return;
  parts_->has_noted_sampler = true;
  base::log_line(
      base::LogLevel::warning,
      "some threads are looked at without their stacks while they are away from CUDA: %s",
      restriction);
  parts_->info.warnings.push_back(std::string("samples without stacks: ") + restriction);
}

void Session::note_python_frames() {
  const char* const reason = stacks::PythonFrames::off_reason();
  if (parts_->has_noted_python || reason[0] == '\0') return;
  parts_->has_noted_python = true;
  base::log_line(base::LogLevel::warning, "call stacks are recorded without Python frames: %s",
                 reason);
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
    parts.info.recording_end_ns = record::host_now_ns();
    count_python_frames();
    const base::Status status = parts.writer->finish(parts.info);
    if (!status.ok()) base::log_line(base::LogLevel::error, "%s", status.message().c_str());
  }
  finished_.store(1, std::memory_order_release);
  base::futex_wake(finished_);
}

void Session::finish() {
  if (pid_.load(std::memory_order_relaxed) != static_cast<std::int32_t>(getpid())) return;
  end_stopped_span();
  record::g_gate.close();
  finishing_.store(1, std::memory_order_release);
  wake_.fetch_add(1);
  base::futex_wake(wake_);
  const std::int64_t deadline_ns = record::host_now_ns() + kFinishTimeout_ns;
  while (finished_.load(std::memory_order_acquire) == 0) {
    const std::int64_t left_ns = deadline_ns - record::host_now_ns();
    if (left_ns <= 0) {
      base::log_line(
          base::LogLevel::warning,
          "the trace could not be finished in %lld s; it is readable, its end is missing",
          static_cast<long long>(kFinishTimeout_ns / 1'000'000'000));
      return;
    }
    base::futex_wait(finished_, 0, left_ns);
  }
}

bool Session::stop() {
  if (activated_.load() == 0) wish_.store(to_stop);
  if (!is_recording_process()) return false;
  std::int64_t running = 0;
  if (!stopped_since_ns_.compare_exchange_strong(running, record::host_now_ns())) return false;
  record::g_gate.close();
  return true;
}

bool Session::start() {
  if (activated_.load() == 0) wish_.store(to_run);
  if (!is_recording_process()) return false;
  if (end_stopped_span()) record::g_gate.open(epoch_.fetch_add(1) + 1);
  return true;
}

// False: the recording was not stopped.
bool Session::end_stopped_span() {
  const std::int64_t since_ns = stopped_since_ns_.exchange(0);
  if (since_ns == 0) return false;
  const std::lock_guard<std::mutex> lock(parts_->spans_mutex);
  parts_->new_spans.emplace_back(since_ns, record::host_now_ns());
  return true;
}

void Session::forget_in_child() {
  // The parent's thread, file and CUPTI state are not the child's; it can say so only once, here.
  record::g_gate.close();
  record::HostCallRecorder::forget_in_child();
}

}  // namespace gpuidle::session

namespace gpuidle::intercept {

void on_cuda_init(int cu_result) noexcept {
  if (cu_result == 0) session::Session::instance().activate();
}

}  // namespace gpuidle::intercept
