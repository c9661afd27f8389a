// SPDX-License-Identifier: Apache-2.0
//
// The life of a recording inside the host: dormant until CUDA starts, then one source of truth, one
// drain thread, one file, and an end that never holds the host up for long. The only code that
// knows all recorder rooms. Fed by entry.cpp and intercept/, which say when.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libgpuidle/base/config.h"
#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::trace {
class TraceWriter;
}

namespace gpuidle::session {

class AttachDoor;
class DeviceDrain;
class HostDrain;

/// Context: control, unless said otherwise.
class Session {
 public:
  static Session& instance();  ///< constant-initialised, never destroyed

  /// CUDA has started in this process: begin, once. Returns when everything is switched on, so
  /// that the first launch is recorded. Never fails for the host: what cannot be had is stepped
  /// down from, said in one line and written into the trace.
  void activate();

  /// The library was put into a process that runs already: be ready for a request, record nothing
  /// yet. Starts a thread and returns at once. False: the system refused the thread.
  bool activate_for_attach();

  /// The process ends: flush, write the rest, close the file; 2 s at most, whatever hangs.
  /// Idempotent; does nothing in a child that was forked from a recording process.
  void finish();

  /// gpuidle_start() and gpuidle_stop(); before CUDA is in use the wish is remembered. False: this
  /// process is not being recorded. Context: any host thread.
  bool start();
  bool stop();

  void forget_in_child();  ///< atfork child handler

  /// For AttachDoor, on its thread: one recording after the other, `output` as GPUIDLE_OUTPUT or ""
  /// for the setting. False with the reason: nothing runs and no file is left.
  bool begin_on_request(const std::string& output, std::string* why_not);
  void end_on_request();  ///< returns when the trace is whole, after 10 s at most
  bool is_recording() const { return finished_.load() == 0; }
  bool is_ending() const { return ending_.load() != 0; }

 private:
  Session() = default;
  // The parts that allocate; made at activation and leaked, so that exit order does not matter.
  struct Parts;

  void begin(bool is_dormant);
  void begin_as_configured();
  bool begin_recording(std::string* why_not);
  bool open_trace(std::string* why_not);
  void choose_source();
  bool begins_stopped() const;
  bool end_stopped_span();
  bool is_recording_process() const;
  std::string start_cupti();
  std::string start_interposition();
  static void drain_loop(void* self);
  void loop();
  void update_stopped_spans();
  void note_yield();
  void on_flush_due(std::int64_t now_ns);
  void on_flush_done();
  void last_flush();
  void start_sampler();
  void drain_samples();
  void note_sampler();
  void note_python_frames();
  void count_python_frames();
  void write(std::int64_t now_ns);
  void publish_counters(std::int64_t now_ns);
  void close_file();
  void signal_end();
  void end_without_file(const std::string& why);
  __attribute__((format(printf, 2, 3))) void warn(const char* format, ...) const;

  std::atomic<std::uint32_t> activated_{0};
  std::atomic<std::uint32_t> ending_{0};  // the process ends: no recording begins any more
  std::atomic<std::uint32_t> wake_{0};    // futex: bumped to wake the drain thread
  std::atomic<std::uint32_t> finishing_{0};
  std::atomic<std::uint32_t> finished_{1};  // futex: 1 when no file is open
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::int64_t> stopped_since_ns_{0};  // 0 = running
  enum Wish : std::uint32_t { as_configured = 0, to_run = 1, to_stop = 2 };
  std::atomic<std::uint32_t> wish_{as_configured};  // of the program, before activation
  std::atomic<std::int32_t> pid_{0};                // of the process that activated; 0 = dormant
  bool is_on_request_ = false;                      // the recording was asked for by a client
  Parts* parts_ = nullptr;
};

}  // namespace gpuidle::session
