// SPDX-License-Identifier: Apache-2.0
//
// gpuidle attach: records a process that is running already, waits until it is done and prints the
// report; also says what can be attached to, how a recording stands, and ends one.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libgpuidle/base/config.h"
#include "libgpuidle/control/block_client.h"
#include "libgpuidle/control/block_name.h"
#include "libgpuidle/report/format.h"
#include "tools/gpuidle/attach_session.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/duration_option.h"
#include "tools/gpuidle/inject/injector.h"
#include "tools/gpuidle/inject/refusal.h"
#include "tools/gpuidle/launch.h"
#include "tools/gpuidle/process_facts.h"
#include "tools/gpuidle/process_list.h"
#include "tools/gpuidle/recording_view.h"

namespace gpuidle::cli {
namespace {

using base::Status;
using base::StatusCode;

struct AttachOptions {
  pid_t pid = 0;
  AttachRequest request;
  bool wants_list = false;
  bool wants_status = false;
  bool wants_detach = false;
  bool wants_report = true;
  RecordingView view;
};

// A relative pattern is meant in the folder of whoever types it, not in the program's.
base::Result<std::string> absolute_output(const std::string& pattern) {
  if (pattern.empty() || pattern[0] == '/') return pattern;
  char folder[4096];
  if (getcwd(folder, sizeof(folder)) == nullptr) {
    return Status(StatusCode::io_error, "cannot tell the current folder");
  }
  std::string absolute;
  for (const char* c = folder; *c != '\0'; ++c) absolute += *c == '%' ? "%%" : std::string(1, *c);
  return absolute + "/" + pattern;
}

// The recorder has just begun in there: its thread makes the block.
base::Result<control::BlockClient> wait_for_recorder(const ProcessFacts& process) {
  constexpr int kTries = 1000;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    base::Result<control::BlockClient> client = control::BlockClient::open(process.pid);
    if (client.ok()) return client;
    status = client.status();
    // A block that is being made is damaged for a moment.
    const bool may_come =
        status.code() == StatusCode::not_found || status.code() == StatusCode::corrupt;
    if (!may_come) return status;
    poll(nullptr, 0, 5);
  }
  return Status(StatusCode::unavailable, "the recorder is in " + process.label() +
                                             " but makes no control block: " + status.message() +
                                             " (is /dev/shm full, or not there?)");
}

base::Result<control::BlockClient> put_recorder_into(const ProcessFacts& process, bool is_quiet) {
  std::vector<std::string> warnings;  // of settings that are no concern of this command
  base::Result<std::string> library =
      find_recorder(base::Config::from_environment(&warnings).library);
  if (!library.ok()) return library.status();
  base::Result<Injection> injected = inject(process, library.value());
  if (!injected.ok()) return injected.status();
  if (!is_quiet) {
    std::fprintf(
        stderr,
        "gpuidle: the recorder was put into %s; thread %d was stopped for %s, all took %s\n",
        process.label().c_str(), injected.value().tid,
        report::format_duration(injected.value().stopped_ns).c_str(),
        report::format_duration(injected.value().all_ns).c_str());
  }
  return wait_for_recorder(process);
}

// The control block of a process; the recorder is put into it if it is not there yet.
base::Result<control::BlockClient> find_recorder_in(const ProcessFacts& process, bool is_quiet) {
  base::Result<control::BlockClient> client = control::BlockClient::open(process.pid);
  if (client.ok() || client.status().code() != StatusCode::not_found) return client;
  if (process.has_recorder) {
    return Status(StatusCode::unavailable,
                  "the recorder in " + process.label() +
                      " sleeps: the program has not used CUDA yet (or /dev/shm had no room)");
  }
  return put_recorder_into(process, is_quiet);
}

base::Result<ProcessFacts> look_at(pid_t pid) {
  base::Result<ProcessFacts> process = read_process(pid);
  if (!process.ok()) return process;
  if (Status status = refuse_any(process.value()); !status.ok()) return status;
  return process;
}

int report_on(const ProcessFacts& process, const TraceLocation& location, const std::string& path,
              AttachOptions& options) {
  base::Result<std::string> here = location.open_path(path);
  if (!here.ok()) return fail({StatusCode::io_error, here.status().message()});
  if (!options.request.is_quiet) {
    std::fprintf(stderr, "gpuidle: trace of %s: %s\n", process.label().c_str(), path.c_str());
  }
  if (!options.wants_report) return kDone;
  options.view.paths = {here.take()};
  return show(options.view, 0, report::text_report, report::json_report);
}

int record(AttachOptions& options) {
  base::Result<std::string> output = absolute_output(options.request.output);
  if (!output.ok()) return fail_attach(output.status());
  options.request.output = output.take();
  base::Result<ProcessFacts> process = look_at(options.pid);
  if (!process.ok()) return fail_attach(process.status());
  base::Result<control::BlockClient> client =
      find_recorder_in(process.value(), options.request.is_quiet);
  if (!client.ok()) return fail_attach(client.status());
  const TraceLocation location(process.value());
  base::Result<std::string> trace =
      record_process(client.value(), process.value(), options.request);
  if (!trace.ok()) return fail_attach(trace.status());
  return report_on(process.value(), location, trace.value(), options);
}

int detach(AttachOptions& options) {
  base::Result<ProcessFacts> process = look_at(options.pid);
  if (!process.ok()) return fail_attach(process.status());
  base::Result<control::BlockClient> client = control::BlockClient::open(options.pid);
  if (!client.ok()) return fail_attach(client.status());
  const TraceLocation location(process.value());
  base::Result<std::string> trace = end_recording(client.value(), process.value());
  if (!trace.ok()) return fail_attach(trace.status());
  options.wants_report = false;
  return report_on(process.value(), location, trace.value(), options);
}

int run_attach(AttachOptions& options) {
  control::remove_stale_blocks();
  if (options.wants_list) return list_processes(options.view.is_json);
  if (options.wants_status) return show_status(options.pid, options.view.is_json);
  if (options.wants_detach) return detach(options);
  return record(options);
}

// Exactly one thing at a time.
void check_usage(const AttachOptions& options) {
  const int modes = static_cast<int>(options.wants_list) + static_cast<int>(options.wants_status) +
                    static_cast<int>(options.wants_detach);
  if (modes > 1) throw CLI::ValidationError("only one of --list, --status and --detach");
  if (options.pid == 0 && !options.wants_list) throw CLI::RequiredError("PID (or --list)");
  if (options.pid != 0 && options.wants_list) throw CLI::ValidationError("--list takes no PID");
}

void add_recording_options(CLI::App& command, AttachOptions& options) {
  command
      .add_option_function<std::string>(
          "--duration",
          [&options](const std::string& text) {
            options.request.duration_ns = parse_duration(text).value();
          },
          "how long to record, such as 30s or 5m [until Ctrl-C]")
      ->type_name("TIME")
      ->check([](const std::string& text) { return parse_duration(text).status().message(); });
  command
      .add_option("-o,--output", options.request.output,
                  "where the trace goes, in the file system of the process [its GPUIDLE_OUTPUT]")
      ->type_name("PATTERN")
      ->check([](const std::string& text) {
        for (const base::SettingRow& row : base::setting_rows()) {
          if (row.option() == "--output") return base::check_setting(row, text).message();
        }
        return std::string();
      });
  command.add_flag("--report,!--no-report", options.wants_report,
                   "print the report at the end [on]");
  command.add_flag("--json", options.view.is_json, "the report, the list or the status as JSON");
  command.add_flag("-q,--quiet", options.request.is_quiet, "say nothing but the report");
}

}  // namespace

int fail_attach(const Status& status) {
  const int code = fail(status);
  switch (status.code()) {
    case StatusCode::not_found:
      return kNoProcess;
    case StatusCode::permission_denied:
      return kNotPermitted;
    case StatusCode::unavailable:
      return kNotNow;
    case StatusCode::wrong_format:
    case StatusCode::unsupported_version:
      return kNever;
    default:
      return code;
  }
}

void add_attach(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "attach", "Record a process that is running already, then print its report");
  auto options = std::make_shared<AttachOptions>();
  options->view.top = 5;
  command->add_option("PID", options->pid, "the process")->check(CLI::PositiveNumber);
  add_recording_options(*command, *options);
  command->add_flag("--list", options->wants_list,
                    "the GPU processes that can be attached to, and why others cannot");
  command->add_flag("--status", options->wants_status, "what the recorder in PID is doing");
  command->add_flag("--detach", options->wants_detach, "end the recording of PID");
  command->footer(
      "Ctrl-C ends the recording, never the process.\n"
      "Exit codes: those of 'gpuidle report', and 7 no such process, 8 not permitted, 9 not now\n"
      "(stopped, traced, no CUDA yet, busy), 10 never (static, 32-bit, musl, strict seccomp).");
  command->callback([options, exit_code] {
    check_usage(*options);
    *exit_code = run_attach(*options);
  });
}

}  // namespace gpuidle::cli
