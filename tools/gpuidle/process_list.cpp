// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/process_list.h"

#include <dirent.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libgpuidle/control/block_client.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/json_writer.h"
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

// Of the documents' form: grows when a field goes or changes its meaning.
constexpr int kVersion = 1;

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

// A GPU process, and whether and how it can be attached to.
struct Candidate {
  pid_t pid = 0;
  std::string name;
  const char* recorder = "unknown";  // a state, or why there is none
  bool can_attach = false;
  std::string answer;  // for people
};

// Fills the candidate; false: the process uses no GPU.
bool ask(const ProcessFacts& process, Candidate* candidate) {
  candidate->pid = process.pid;
  candidate->name = process.name;
  base::Result<BlockClient> client = BlockClient::open(process.pid);
  if (client.ok()) {
    base::Result<BlockView> view = client.value().view();
    candidate->answer = view.ok() ? word_of(view.value()) : view.status().message();
    if (!view.ok()) return true;
    candidate->recorder = key_of(view.value().state);
    candidate->can_attach = view.value().state == State::dormant;
    return true;
  }
  if (!process.has_cuda && !has_gpu_open(process.pid)) return false;
  if (client.status().code() != StatusCode::not_found) {
    candidate->answer = client.status().message();
    return true;
  }
  if (process.has_recorder) {
    candidate->recorder = "asleep";
    candidate->answer = "no: the recorder sleeps, CUDA has not started";
    return true;
  }
  candidate->recorder = "absent";
  const base::Status refusal = refuse_injection(process);
  candidate->can_attach = refusal.ok();
  candidate->answer =
      refusal.ok() ? "not in it yet: 'gpuidle attach' puts it there" : "no: " + refusal.message();
  return true;
}

struct Candidates {
  std::vector<Candidate> found;
  std::uint64_t without_gpu = 0;
  std::uint64_t of_others = 0;
};

Candidates find_candidates() {
  Candidates all;
  for (const pid_t pid : all_processes()) {
    base::Result<ProcessFacts> read = read_process(pid);
    if (!read.ok() || pid == getpid()) continue;
    const ProcessFacts& process = read.value();
    if (process.state == 'Z' || process.state == 'X') continue;
    if (!process.is_readable) {
      ++all.of_others;
      continue;
    }
    Candidate candidate;
    if (ask(process, &candidate)) {
      all.found.push_back(std::move(candidate));
    } else {
      ++all.without_gpu;
    }
  }
  return all;
}

std::string text_of(const Candidates& all) {
  std::string text = all.found.empty()
                         ? "no process of this user uses a GPU\n"
                         : fmt::format("{:>8}  {:<16} {}\n", "PID", "PROGRAM", "RECORDER");
  for (const Candidate& candidate : all.found) {
    text += fmt::format("{:>8}  {:<16} {}\n", candidate.pid, candidate.name, candidate.answer);
  }
  return text + fmt::format("skipped: {} without CUDA or an open GPU device, {} of other users\n",
                            all.without_gpu, all.of_others);
}

std::string json_of(const Candidates& all) {
  report::JsonWriter json;
  json.begin_object().field("schema", "gpuidle.attach.list").field("version", kVersion);
  json.key("processes").begin_array();
  for (const Candidate& candidate : all.found) {
    json.begin_object().field("pid", candidate.pid).field("program", candidate.name);
    json.field("recorder", candidate.recorder).field("can_attach", candidate.can_attach);
    json.field("answer", candidate.answer).end_object();
  }
  json.end_array().key("skipped").begin_object().field("without_gpu", all.without_gpu);
  json.field("of_other_users", all.of_others).end_object().end_object();
  return json.take();
}

std::string text_of(const ProcessFacts& process, const BlockView& view) {
  std::string text = fmt::format("{}: {}\n", process.label(), word_of(view));
  text += fmt::format("recorder    libgpuidle {}, {} so far\n", view.tool_version,
                      report::count_of(view.recordings, "recording"));
  if (view.recordings != 0) {
    const bool is_open = view.state != State::dormant;
    text += fmt::format("{}  {}\n", is_open ? "trace     " : "last trace", view.trace_path);
  }
  if (view.state != State::recording) return text;
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
  return text + fmt::format("lost        {} records\n", report::format_count(view.counters.losses));
}

std::string json_of(const ProcessFacts& process, const BlockView& view) {
  report::JsonWriter json;
  json.begin_object().field("schema", "gpuidle.attach.status").field("version", kVersion);
  json.field("pid", process.pid).field("program", process.name);
  json.field("recorder", key_of(view.state)).field("recorder_version", view.tool_version);
  json.field("recording_count", view.recordings);
  std::optional<std::string> trace;
  if (view.recordings != 0) trace = view.trace_path;
  json.field("trace", trace).key("recording");
  if (view.state != State::recording) return json.null().end_object().take();
  const bool is_requested = view.started_by == StartedBy::request;
  std::optional<std::int64_t> left_ns;
  if (is_requested && view.left_ns > 0) left_ns = view.left_ns;
  json.begin_object().field("started_by", is_requested ? "client" : "settings");
  json.field("duration_ns", now_ns() - view.recording_ns).field("left_ns", left_ns);
  json.field("file_bytes", view.counters.file_bytes);
  json.field("activity_count", view.counters.activities);
  json.field("call_count", view.counters.calls);
  json.field("lost_record_count", view.counters.losses).end_object().end_object();
  return json.take();
}

int show(const std::string& text) {
  const base::Status status = print(text);
  return status.ok() ? static_cast<int>(kDone) : fail(status);
}

}  // namespace

const char* key_of(State state) {
  switch (state) {
    case State::dormant:
      return "dormant";
    case State::armed:
      return "armed";
    case State::recording:
      return "recording";
    case State::draining:
      return "draining";
  }
  return "unknown";
}

int list_processes(bool is_json) {
  const Candidates all = find_candidates();
  return show(is_json ? json_of(all) : text_of(all));
}

int show_status(pid_t pid, bool is_json) {
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
  return show(is_json ? json_of(process.value(), seen.value())
                      : text_of(process.value(), seen.value()));
}

}  // namespace gpuidle::cli
