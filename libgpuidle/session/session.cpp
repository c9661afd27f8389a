// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/session/session.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>

#include "libgpuidle/base/loaded_objects.h"
#include "libgpuidle/base/log.h"
#include "libgpuidle/base/own_thread.h"
#include "libgpuidle/base/version.h"
#include "libgpuidle/cupti/cupti_choice.h"
#include "libgpuidle/cupti/cupti_source.h"
#include "libgpuidle/intercept/host_call_sink.h"
#include "libgpuidle/record/gate.h"
#include "libgpuidle/record/host_call_recorder.h"
#include "libgpuidle/session/process_info.h"
#include "libgpuidle/session/session_parts.h"
#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/host_stack.h"
#include "libgpuidle/stacks/python_frames.h"
#include "libgpuidle/stacks/stall_sampler.h"

namespace gpuidle::session {
namespace {

// The host's exit waits this long at most for the whole end.
constexpr std::int64_t kFinishTimeout_ns = 2'000'000'000;
// A client that asked for the end waits longer than the host's exit may.
constexpr std::int64_t kEndTimeout_ns = 10'000'000'000;
constexpr std::uint32_t kMaxFileCounter = 1000;

// Where a client in another folder finds the file.
std::string absolute_path(const std::string& path) {
  char folder[PATH_MAX];
  if (path[0] == '/' || getcwd(folder, sizeof(folder)) == nullptr) return path;
  return std::string(folder) + "/" + path;
}

}  // namespace

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
    begin(false);
  } catch (const std::exception& error) {  // out of memory: the host must not notice
    cupti::CuptiSource::instance().give_up();
    end_without_file(error.what());
  }
  errno = host_errno;
}

bool Session::activate_for_attach() {
  if (activated_.load() != 0) return true;
  return base::start_own_thread(
      "gpuidle-boot",
      [](void* raw) {
        auto* session = static_cast<Session*>(raw);
        std::uint32_t expected = 0;
        if (!session->activated_.compare_exchange_strong(expected, 1)) return;
        try {
          session->begin(true);
        } catch (const std::exception& error) {
          session->end_without_file(error.what());
        }
      },
      this);
}

void Session::begin(bool is_dormant) {
  parts_ = new Parts(*this);
  pid_.store(static_cast<std::int32_t>(getpid()), std::memory_order_relaxed);
  std::vector<std::string> warnings;
  parts_->config = base::Config::from_environment(&warnings);
  base::configure_log(parts_->config.log, parts_->config.log_file.c_str());
  for (const std::string& warning : warnings) {
    base::log_line(base::LogLevel::warning, "%s", warning.c_str());
  }
  pthread_atfork(base::hold_loaded_objects_before_fork, base::free_loaded_objects_after_fork, [] {
    base::free_loaded_objects_after_fork();
    Session::instance().forget_in_child();
  });
  // Registered after the driver's own handlers, so it runs before them, while CUDA still works.
  std::atexit([] { Session::instance().finish(); });
  is_dormant = is_dormant || parts_->config.start == base::StartMode::on_request;
  const base::Status door = parts_->door.open();
  if (!is_dormant) {
    if (!door.ok()) base::log_line(base::LogLevel::info, "%s", door.message().c_str());
    begin_as_configured();
  } else if (!door.ok()) {
    base::log_line(base::LogLevel::warning, "this process cannot be attached to: %s",
                   door.message().c_str());
  }
  parts_->door.start_hearing();
}

void Session::begin_as_configured() {
  finished_.store(0);
  parts_->output = parts_->config.output;
  std::string why_not;
  if (begin_recording(&why_not)) return;
  if (parts_->info.source == model::Source::off && parts_->writer != nullptr) {
    warn("nothing is recorded: %s", why_not.c_str());  // the file says so, too
    signal_end();
  } else {
    end_without_file(why_not);
  }
}

bool Session::begin_on_request(const std::string& output, std::string* why_not) {
  finishing_.store(0);
  finished_.store(0);
  bool has_begun = false;
  if (ending_.load() != 0) {
    *why_not = "the program is ending";
  } else {
    try {
      parts_->reset();
      is_on_request_ = true;
      parts_->output = output.empty() ? parts_->config.output : output;
      has_begun = begin_recording(why_not);
    } catch (const std::exception& error) {
      cupti::CuptiSource::instance().give_up();
      *why_not = error.what();
    }
  }
  if (has_begun) return true;
  record::g_gate.close();
  if (parts_->writer != nullptr) unlink(parts_->path.c_str());
  signal_end();
  return false;
}

void Session::end_on_request() {
  parts_->door.block().set_state(control::State::draining, control::StartedBy::request);
  end_stopped_span();
  record::g_gate.close();
  finishing_.store(1, std::memory_order_release);
  wake_.fetch_add(1);
  base::futex_wake(wake_);
  const std::int64_t deadline_ns = record::host_now_ns() + kEndTimeout_ns;
  while (finished_.load(std::memory_order_acquire) == 0) {
    const std::int64_t left_ns = deadline_ns - record::host_now_ns();
    if (left_ns <= 0) return;  // the state stays "draining", which the client shows
    base::futex_wait(finished_, 0, left_ns);
  }
}

// False with the reason: nothing is recorded, and there may be a file that says so.
bool Session::begin_recording(std::string* why_not) {
  model::RecordingInfo& info = parts_->info;
  describe_process(info);
  info.producer = std::string("libgpuidle ") + base::kToolVersion;
  info.detail_level = "full";
  info.settings = parts_->config.effective();
  parts_->session_start_ns = record::host_now_ns();
  info.recording_start_ns = parts_->session_start_ns;
  parts_->gap_threshold_ns = std::int64_t{parts_->config.gap_threshold_us} * 1000;

  // The file first: without one there is no reason to touch CUPTI.
  if (!open_trace(why_not)) return false;
  choose_source();
  if (base::Status status = parts_->writer->write_info(info); !status.ok()) {
    cupti::CuptiSource::instance().give_up();
    *why_not = status.message();
    return false;
  }
  if (info.source == model::Source::off) {
    *why_not = info.source_reason;
    close_file();
    return false;
  }
  if (info.source == model::Source::interposition) {
    warn("no device activity is recorded, host calls only: %s", info.source_reason.c_str());
  }
  control::BlockOwner& block = parts_->door.block();
  block.note_recording(absolute_path(parts_->path), parts_->session_start_ns);
  start_sampler();
  if (!base::start_own_thread("gpuidle-drain", &Session::drain_loop, this)) {
    cupti::CuptiSource::instance().give_up();
    *why_not = "the system refused a thread";
    return false;
  }
  block.set_state(control::State::recording,
                  is_on_request_ ? control::StartedBy::request : control::StartedBy::settings);
  if (begins_stopped()) {
    stopped_since_ns_.store(parts_->session_start_ns);
  } else {
    record::g_gate.open(epoch_.fetch_add(1) + 1);
    if (finishing_.load() != 0) record::g_gate.close();  // the program has begun to end meanwhile
  }
  return true;
}

bool Session::begins_stopped() const {
  if (is_on_request_) return false;
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
  signal_end();
}

// Lines into the program's output are for whoever started it with the recorder. One who attaches
// is told by the answer and by the trace.
void Session::warn(const char* format, ...) const {
  if (is_on_request_) return;
  char text[base::kMaxLogLine];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  base::log_line(base::LogLevel::warning, "%s", text);
}

bool Session::open_trace(std::string* why_not) {
  base::OutputFields fields = base::OutputFields::of_this_process();
  for (fields.counter = 0; fields.counter < kMaxFileCounter; ++fields.counter) {
    parts_->path = base::expand_output_pattern(parts_->output, fields);
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
    if (!parts_->has_prepared_stacks && stacks::CallStack::prepare()) {
      stacks::PythonFrames::prepare();
      parts_->has_prepared_stacks = true;
    }
    if (parts_->has_prepared_stacks) {
      options.capture_stack = &stacks::capture_host_stack;
    } else {
      const std::string why = stacks::CallStack::unavailable_reason();
      warn("no call stacks are recorded: %s", why.c_str());
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

void Session::start_sampler() {
  const base::Config& config = parts_->config;
  if (!config.stacks || config.sample_rate == 0) return;
  if (stacks::CallStack::unavailable_reason()[0] != '\0') return;
  stacks::SamplerOptions options;
  options.rate_hz = config.sample_rate;
  options.stack_depth = static_cast<int>(config.stack_depth);
  if (stacks::StallSampler::instance().start(options, record::g_recorder)) return;
  warn(
      "threads are not looked at while they are away from CUDA: the system refused memory or a "
      "thread");
  parts_->info.warnings.push_back("no samples: the system refused memory or a thread");
}

std::string Session::start_cupti() {
  cupti::CuptiSource& source = cupti::CuptiSource::instance();
  // The hooks may have stood in for CUPTI in an earlier recording; both at once would count twice.
  intercept::g_host_call_sink.store(nullptr, std::memory_order_release);
  const base::Status status =
      source.start(parts_->config.cupti_library, cupti::mapped_driver_major());
  if (!status.ok()) return status.message();
  parts_->info.settings.push_back("CUPTI=" + source.release());
  parts_->device = std::make_unique<DeviceDrain>(source, parts_->tables);
  if (parts_->first_start_ns == 0) {
    parts_->first_start_ns = parts_->session_start_ns;
  } else {
    parts_->device->set_earlier(parts_->first_start_ns);
  }
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

void Session::signal_end() {
  finished_.store(1, std::memory_order_release);
  base::futex_wake(finished_);
  if (parts_ != nullptr) parts_->door.block().wake();  // the door tells the client
}

void Session::finish() {
  if (pid_.load(std::memory_order_relaxed) != static_cast<std::int32_t>(getpid())) return;
  ending_.store(1);
  if (finished_.load() == 0) {
    parts_->door.block().set_state(control::State::draining, is_on_request_
                                                                 ? control::StartedBy::request
                                                                 : control::StartedBy::settings);
  }
  parts_->door.close();
  end_stopped_span();
  record::g_gate.close();
  finishing_.store(1);
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
  if (parts_ != nullptr) parts_->door.block().forget();
}

}  // namespace gpuidle::session

namespace gpuidle::intercept {

void on_cuda_init(int cu_result) noexcept {
  if (cu_result == 0) session::Session::instance().activate();
}

}  // namespace gpuidle::intercept
