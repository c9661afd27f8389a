// SPDX-License-Identifier: Apache-2.0
//
// gpuidle top: how busy and idle the devices are right now, from the counters that recorders
// publish; reads no trace and disturbs no process.
#include <fmt/format.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libgpuidle/control/block_client.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/json_writer.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/duration_option.h"
#include "tools/gpuidle/inject/refusal.h"
#include "tools/gpuidle/process_facts.h"
#include "tools/gpuidle/process_list.h"

namespace gpuidle::cli {
namespace {

using control::BlockClient;
using control::BlockView;
using control::DeviceTotals;
using control::State;

struct TopOptions {
  pid_t pid = 0;
  std::int64_t interval_ns = 1'000'000'000;
  std::uint32_t rounds = 0;  // 0 = until Ctrl-C
  bool is_json = false;
};

// Of the document's form: grows when a field goes or changes its meaning.
constexpr int kVersion = 1;

// Of one process, device and recording, at the last look.
using Key = std::pair<std::pair<pid_t, std::uint32_t>, std::uint32_t>;
using Seen = std::map<Key, DeviceTotals>;

std::vector<pid_t> watched(const TopOptions& options) {
  if (options.pid != 0) return {options.pid};
  return all_processes();
}

std::string shares(const DeviceTotals& now, const DeviceTotals& before) {
  const std::int64_t busy_ns = now.busy_ns - before.busy_ns;
  const std::int64_t idle_ns = now.idle_ns - before.idle_ns;
  const std::int64_t all_ns = now.busy_ns + now.idle_ns;
  return fmt::format(
      "{:>7} {:>7}   {:>7} {:>7} {:>11}", report::format_share(busy_ns, busy_ns + idle_ns),
      report::format_share(idle_ns, busy_ns + idle_ns), report::format_share(now.busy_ns, all_ns),
      report::format_share(now.idle_ns, all_ns), report::format_count(now.gaps));
}

std::string rows_of(const ProcessFacts& process, const BlockView& view, Seen& seen) {
  const std::string head = fmt::format("{:>8} {:<15}", process.pid, process.name);
  if (view.state != State::recording) return head + "      not being recorded\n";
  if (view.devices.empty()) {
    return head + "      no device operation is complete yet, or host calls only\n";
  }
  std::string text;
  for (const DeviceTotals& now : view.devices) {
    DeviceTotals& before = seen[{{process.pid, view.recordings}, now.device}];
    text += fmt::format("{} {:>5} {} {:>7}\n", head, now.device, shares(now, before),
                        report::format_count(view.counters.losses));
    before = now;
  }
  return text;
}

using Look = std::vector<std::pair<ProcessFacts, BlockView>>;

Look look_at(const TopOptions& options) {
  Look look;
  for (const pid_t pid : watched(options)) {
    base::Result<BlockClient> client = BlockClient::open(pid);
    base::Result<ProcessFacts> process = read_process(pid);
    if (!client.ok() || !process.ok()) continue;
    base::Result<BlockView> view = client.value().view();
    if (view.ok()) look.emplace_back(process.take(), view.take());
  }
  return look;
}

std::string text_of(const Look& look, Seen& seen) {
  std::string rows;
  for (const auto& [process, view] : look) rows += rows_of(process, view, seen);
  if (rows.empty()) return "no process of this user has the recorder in it\n";
  return fmt::format("{:>8} {:<15} {:>5} {:>15}   {:>15} {:>11} {:>7}\n", "", "", "",
                     "since last look", "whole recording", "", "") +
         fmt::format("{:>8} {:<15} {:>5} {:>7} {:>7}   {:>7} {:>7} {:>11} {:>7}\n", "PID",
                     "PROGRAM", "GPU", "busy", "idle", "busy", "idle", "gaps", "lost") +
         rows;
}

std::string json_of(const Look& look, Seen& seen) {
  report::JsonWriter json;
  json.begin_object().field("schema", "gpuidle.top").field("version", kVersion);
  json.key("processes").begin_array();
  for (const auto& [process, view] : look) {
    json.begin_object().field("pid", process.pid).field("program", process.name);
    json.field("recorder", key_of(view.state));
    json.field("lost_record_count", view.counters.losses).key("devices").begin_array();
    if (view.state == State::recording) {
      for (const DeviceTotals& now : view.devices) {
        DeviceTotals& before = seen[{{process.pid, view.recordings}, now.device}];
        json.begin_object().field("device", now.device).field("gap_count", now.gaps);
        json.field("busy_ns", now.busy_ns).field("idle_ns", now.idle_ns);
        json.field("busy_since_last_look_ns", now.busy_ns - before.busy_ns);
        json.field("idle_since_last_look_ns", now.idle_ns - before.idle_ns).end_object();
        before = now;
      }
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take();
}

int check_process(pid_t pid) {
  base::Result<ProcessFacts> process = read_process(pid);
  if (!process.ok()) return fail_attach(process.status());
  if (base::Status status = refuse_any(process.value()); !status.ok()) return fail_attach(status);
  base::Result<BlockClient> client = BlockClient::open(pid);
  return client.ok() ? static_cast<int>(kDone) : fail_attach(client.status());
}

int run_top(const TopOptions& options) {
  if (options.pid != 0) {
    if (const int code = check_process(options.pid); code != kDone) return code;
  }
  const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  Seen seen;
  for (std::uint32_t round = 1;; ++round) {
    const Look look = look_at(options);
    // Home and clear: only where somebody watches.
    const bool clears = is_terminal && round > 1 && !options.is_json;
    const std::string text = options.is_json ? json_of(look, seen) : text_of(look, seen);
    if (base::Status status = print((clears ? "\x1b[H\x1b[J" : "") + text); !status.ok()) {
      return fail(status);
    }
    if (round == options.rounds) return kDone;
    if (options.pid != 0 && !read_process(options.pid).ok()) {
      std::fprintf(stderr, "gpuidle: process %d has ended\n", options.pid);
      return kDone;
    }
    poll(nullptr, 0, static_cast<int>(options.interval_ns / 1'000'000));
  }
}

}  // namespace

void add_top(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("top", "How busy and idle the GPUs are right now");
  auto options = std::make_shared<TopOptions>();
  command->add_option("PID", options->pid, "only this process")->check(CLI::PositiveNumber);
  command
      ->add_option_function<std::string>(
          "--interval",
          [options](const std::string& text) {
            options->interval_ns = parse_duration(text).value();
          },
          "time between two looks, at most a day [1s]")
      ->type_name("TIME")
      ->check([](const std::string& text) {
        base::Result<std::int64_t> interval = parse_duration(text);
        if (!interval.ok()) return interval.status().message();
        return std::string(interval.value() > 86'400'000'000'000 ? "at most 24h" : "");
      });
  command->add_option("--rounds", options->rounds, "looks, then end [until Ctrl-C]")
      ->type_name("N");
  command->add_flag("--json", options->is_json, "one JSON document per look, one after the other");
  command->footer(
      "busy, idle: an operation runs on the device, or none does; both end about 1.5 s ago, at "
      "the\n"
      "last operation that is known to be complete. The first look is since the recording began.\n"
      "Exit codes: 0 done, 2 usage, 7 no such process or no recorder in it, 8 not permitted.");
  command->callback([options, exit_code] { *exit_code = run_top(*options); });
}

}  // namespace gpuidle::cli
