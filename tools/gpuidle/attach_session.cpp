// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/attach_session.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "libgpuidle/control/block_name.h"
#include "libgpuidle/report/format.h"

namespace gpuidle::cli {
namespace {

using base::Status;
using base::StatusCode;
using control::Answer;
using control::BlockClient;
using control::BlockView;
using control::Command;
using control::StartedBy;
using control::State;

constexpr std::int64_t kSecond_ns = 1'000'000'000;
constexpr std::int64_t kLook_ns = 200'000'000;
// Switching CUPTI on in a process with many contexts takes a while; a recorder that lives answers.
constexpr std::int64_t kAnswerTimeout_ns = 15 * kSecond_ns;
// The recorder's own limit is 10 s.
constexpr std::int64_t kEndTimeout_ns = 12 * kSecond_ns;

volatile sig_atomic_t g_interrupted = 0;

void interrupt(int) { g_interrupted = 1; }

// Turns the signals that end a command into a wish to end the recording, for as long as it lives.
// Each counts once: the second one ends the command, and the recorder ends by itself.
class Interruptible {
 public:
  Interruptible() {
    g_interrupted = 0;
    struct sigaction action {};
    action.sa_handler = interrupt;
    action.sa_flags = SA_RESETHAND;
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~Interruptible() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)]{};
};

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * kSecond_ns + now.tv_nsec;
}

// False also for a zombie and for a later process of that number.
class Life {
 public:
  explicit Life(pid_t pid) : pid_(std::to_string(pid)), start_(control::start_ticks(pid_)) {}
  bool goes_on() const {
    base::Result<ProcessFacts> facts = read_process(static_cast<pid_t>(std::stol(pid_)));
    if (!facts.ok() || facts.value().state == 'Z' || facts.value().state == 'X') return false;
    return control::start_ticks(pid_) == start_;
  }

 private:
  std::string pid_;
  std::optional<std::uint64_t> start_;
};

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat of_a {};
  struct stat of_b {};
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

Status ended(const ProcessFacts& process) {
  return {StatusCode::not_found, process.label() + " has ended"};
}

// Sends and waits for the answer. An answer other than `done` is a Status with the recorder's text.
base::Result<BlockView> ask(const BlockClient& client, const ProcessFacts& process,
                            const control::Request& request) {
  const Life life(process.pid);
  base::Result<std::uint32_t> number = client.send(request);
  if (!number.ok()) return number.status();
  const std::int64_t deadline_ns = now_ns() + kAnswerTimeout_ns;
  while (now_ns() < deadline_ns) {
    base::Result<BlockView> view = client.view();
    if (!view.ok()) return view.status();
    const BlockView& seen = view.value();
    if (seen.answered == number.value()) {
      if (seen.answer == Answer::done) return view;
      return Status(StatusCode::unavailable,
                    "the recorder in " + process.label() + " refuses: " + seen.text);
    }
    if (!life.goes_on()) return ended(process);
    client.wait_for_change(seen, kLook_ns);
  }
  base::Result<ProcessFacts> facts = read_process(process.pid);
  const bool is_stopped = facts.ok() && (facts.value().state == 'T' || facts.value().state == 't');
  return Status(StatusCode::io_error,
                "the recorder in " + process.label() + " has not answered for " +
                    report::format_duration(kAnswerTimeout_ns) +
                    (is_stopped ? ": the process is stopped; continue it (kill -CONT " +
                                      std::to_string(process.pid) + ") and ask again"
                                : ""));
}

bool is_over(const BlockView& view, std::uint32_t recording) {
  return view.state == State::dormant || view.recordings != recording;
}

// Waits until the recording that `first` shows is over, the process is gone, or an interrupt (which
// is passed on as a request to end). Beats meanwhile.
base::Result<std::string> wait_for_end(const BlockClient& client, const ProcessFacts& process,
                                       const BlockView& first) {
  const Life life(process.pid);
  std::int64_t next_beat_ns = 0;
  std::int64_t give_up_ns = 0;  // 0: no end has been asked for
  for (;;) {
    base::Result<BlockView> view = client.view();
    if (!view.ok()) return view.status();
    if (is_over(view.value(), first.recordings)) return first.trace_path;
    if (!life.goes_on()) {
      std::fprintf(stderr, "gpuidle: %s has ended\n", process.label().c_str());
      return first.trace_path;
    }
    if (now_ns() >= next_beat_ns) {
      client.beat();
      next_beat_ns = now_ns() + kSecond_ns / 2;
    }
    if (g_interrupted != 0 && give_up_ns == 0) {
      control::Request stop;
      stop.command = Command::stop;
      if (base::Result<std::uint32_t> sent = client.send(stop); !sent.ok()) return sent.status();
      give_up_ns = now_ns() + kEndTimeout_ns;
    }
    if (give_up_ns != 0 && now_ns() >= give_up_ns) {
      return Status(StatusCode::io_error,
                    "the recorder in " + process.label() +
                        " does not come to an end; its trace so far: " + first.trace_path);
    }
    client.wait_for_change(view.value(), kLook_ns);
  }
}

// The recording is not ours: look on for as long as was asked, and leave it running.
base::Result<std::string> look_on(const BlockClient& client, const ProcessFacts& process,
                                  const BlockView& first, const AttachRequest& request) {
  const Life life(process.pid);
  const Interruptible interruptible;
  if (!request.is_quiet) {
    std::fprintf(stderr,
                 "gpuidle: %s records itself, as its settings say, into %s; the report covers all "
                 "of it so far, and the recording goes on\n",
                 process.label().c_str(), first.trace_path.c_str());
  }
  const std::int64_t end_ns = request.duration_ns == 0 ? 0 : now_ns() + request.duration_ns;
  for (;;) {
    base::Result<BlockView> view = client.view();
    if (!view.ok()) return view.status();
    const bool is_time = end_ns != 0 && now_ns() >= end_ns;
    if (is_over(view.value(), first.recordings) || is_time || g_interrupted != 0) break;
    if (!life.goes_on()) break;
    client.wait_for_change(view.value(), kLook_ns);
  }
  return first.trace_path;
}

}  // namespace

TraceLocation::TraceLocation(const ProcessFacts& process) : user_(process.user) {
  const std::string folder = "/proc/" + std::to_string(process.pid);
  const std::string root = folder + "/root";
  // Its own mounts may lie over the same root.
  if (is_same_file(folder + "/ns/mnt", "/proc/self/ns/mnt") && is_same_file(root, "/")) return;
  root_ = open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

TraceLocation::~TraceLocation() {
  if (root_ >= 0) close(root_);
}

base::Result<std::string> TraceLocation::open_path(const std::string& path) const {
  if (path.empty()) {
    return Status(StatusCode::not_found,
                  "the recorder does not say where the trace is: its path is too long");
  }
  const std::string here = root_ < 0 ? path : "/proc/self/fd/" + std::to_string(root_) + "/" + path;
  struct stat facts {};
  if (lstat(here.c_str(), &facts) != 0) {
    return Status(StatusCode::not_found,
                  "cannot open the trace " + path + ": " + std::strerror(errno));
  }
  if (!S_ISREG(facts.st_mode) || facts.st_uid != user_) {
    return Status(StatusCode::permission_denied,
                  path + " is not a file of the process's user; it is not read");
  }
  return here;
}

base::Result<std::string> record_process(const BlockClient& client, const ProcessFacts& process,
                                         const AttachRequest& request) {
  base::Result<BlockView> before = client.view();
  if (!before.ok()) return before.status();
  if (before.value().state != State::dormant) {
    if (before.value().started_by == StartedBy::settings) {
      return look_on(client, process, before.value(), request);
    }
    return Status(StatusCode::unavailable,
                  process.label() + " is being recorded for another client, into " +
                      before.value().trace_path + "; 'gpuidle attach --detach " +
                      std::to_string(process.pid) + "' would end that");
  }
  const Interruptible interruptible;
  control::Request start;
  start.command = Command::start;
  start.duration_ns = request.duration_ns;
  start.has_lease = request.duration_ns == 0;
  start.output = request.output;
  base::Result<BlockView> begun = ask(client, process, start);
  if (!begun.ok()) return begun.status();
  if (!request.is_quiet) {
    const std::string time = request.duration_ns == 0
                                 ? std::string("until Ctrl-C")
                                 : "for " + report::format_duration(request.duration_ns);
    std::fprintf(stderr, "gpuidle: recording %s %s\n", process.label().c_str(), time.c_str());
  }
  return wait_for_end(client, process, begun.value());
}

base::Result<std::string> end_recording(const BlockClient& client, const ProcessFacts& process) {
  base::Result<BlockView> before = client.view();
  if (!before.ok()) return before.status();
  control::Request stop;
  stop.command = Command::stop;
  base::Result<BlockView> answered = ask(client, process, stop);
  if (!answered.ok()) return answered.status();
  return wait_for_end(client, process, before.value());
}

}  // namespace gpuidle::cli
