// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/process_list.h"

#include <dirent.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "libgpuidle/control/block_client.h"
#include "libgpuidle/report/format.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/inject/refusal.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {
namespace {

using base::StatusCode;
using control::BlockClient;
using control::BlockView;
using control::StartedBy;
using control::State;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Device files of the driver that the process holds open.
bool has_gpu_open(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(entries)) {
    char target[64] = "";
    const ssize_t length = readlinkat(dirfd(entries), entry->d_name, target, sizeof(target) - 1);
    found = found || (length > 0 && std::strncmp(target, "/dev/nvidia", 11) == 0);
  }
  closedir(entries);
  return found;
}

const char* word_of(const BlockView& view) {
  switch (view.state) {
    case State::dormant:
      return "dormant: nothing is recorded, 'gpuidle attach' can begin";
    case State::armed:
      return "a recording is being switched on";
    case State::recording:
      return view.started_by == StartedBy::settings ? "recording, as its settings say"
                                                    : "recording for a client";
    case State::draining:
      return "a recording is being written to its end";
  }
  return "not known";
}

// Why or how a GPU process can be attached to; "" = it is not one.
std::string attachability(const ProcessFacts& process) {
  base::Result<BlockClient> client = BlockClient::open(process.pid);
  if (client.ok()) {
    base::Result<BlockView> view = client.value().view();
    return view.ok() ? word_of(view.value()) : view.status().message();
  }
  if (!process.has_cuda && !has_gpu_open(process.pid)) return {};
  if (client.status().code() != StatusCode::not_found) return client.status().message();
  if (process.has_recorder) return "no: the recorder sleeps, CUDA has not started";
  const base::Status refusal = refuse_injection(process);
  return refusal.ok() ? "not in it yet: 'gpuidle attach' puts it there"
                      : "no: " + refusal.message();
}

}  // namespace

int list_processes() {
  std::string text;
  std::uint64_t without_gpu = 0;
  std::uint64_t of_others = 0;
  std::uint64_t shown = 0;
  for (const pid_t pid : all_processes()) {
    base::Result<ProcessFacts> read = read_process(pid);
    if (!read.ok() || pid == getpid()) continue;
    const ProcessFacts& process = read.value();
    if (process.state == 'Z' || process.state == 'X') continue;
    if (!process.is_readable) {
      ++of_others;
      continue;
    }
    const std::string answer = attachability(process);
    if (answer.empty()) {
      ++without_gpu;
      continue;
    }
    ++shown;
    text += fmt::format("{:>8}  {:<16} {}\n", pid, process.name, answer);
  }
  if (shown != 0) text = fmt::format("{:>8}  {:<16} {}\n", "PID", "PROGRAM", "RECORDER") + text;
  if (shown == 0) text = "no process of this user uses a GPU\n";
  text += fmt::format("skipped: {} without CUDA or an open GPU device, {} of other users\n",
                      without_gpu, of_others);
  std::fputs(text.c_str(), stdout);
  return kDone;
}

int show_status(pid_t pid) {
  base::Result<ProcessFacts> process = read_process(pid);
  if (!process.ok()) return fail_attach(process.status());
  // A stopped process can be looked at all the same.
  if (process.value().state != 'T') {
    if (base::Status status = refuse_any(process.value()); !status.ok()) return fail_attach(status);
  }
  base::Result<BlockClient> client = BlockClient::open(pid);
  if (!client.ok()) return fail_attach(client.status());
  base::Result<BlockView> seen = client.value().view();
  if (!seen.ok()) return fail_attach(seen.status());
  const BlockView& view = seen.value();
  std::string text = fmt::format("{}: {}\n", process.value().label(), word_of(view));
  text += fmt::format("recorder    libgpuidle {}, {} so far\n", view.tool_version,
                      report::count_of(view.recordings, "recording"));
  if (view.recordings != 0) {
    const bool is_open = view.state != State::dormant;
    text += fmt::format("{}  {}\n", is_open ? "trace     " : "last trace", view.trace_path);
  }
  if (view.state == State::recording) {
    text += fmt::format("since       {}\n", report::format_duration(now_ns() - view.recording_ns));
    if (view.started_by == StartedBy::request) {
      text += fmt::format("ends        {}\n", view.left_ns > 0
                                                  ? "in " + report::format_duration(view.left_ns)
                                                  : std::string("when its client does"));
    }
    text += fmt::format("written     {} bytes, {} device operations, {} calls that queue work\n",
                        report::format_count(view.counters.file_bytes),
                        report::format_count(view.counters.activities),
                        report::format_count(view.counters.calls));
    text += fmt::format("lost        {} records\n", report::format_count(view.counters.losses));
  }
  std::fputs(text.c_str(), stdout);
  return kDone;
}

}  // namespace gpuidle::cli
