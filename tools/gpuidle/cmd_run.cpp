// SPDX-License-Identifier: Apache-2.0
//
// gpuidle run: starts a program with the recorder preloaded, ends like it, and tells on standard
// error where the trace is and what it says. The program's standard output is not touched.
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libgpuidle/base/config.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/launch.h"

namespace gpuidle::cli {
namespace {

constexpr int kCouldNotStart = 127;

struct RunOptions {
  std::map<std::string, std::string> settings;  // GPUIDLE_NAME -> value given on the command line
  bool wants_report = true;
  bool is_quiet = false;
  std::vector<std::string> program;
};

struct TraceFile {
  std::string path;
  off_t bytes = 0;
};

// Path and inode: a file that was deleted and written anew is new.
using KnownFiles = std::map<std::string, ino_t>;

std::string size_text(off_t bytes) {
  char text[32];
  const double kib = static_cast<double>(bytes) / 1024.0;
  if (kib < 1024.0) {
    std::snprintf(text, sizeof(text), "%.1f KiB", kib);
  } else {
    std::snprintf(text, sizeof(text), "%.1f MiB", kib / 1024.0);
  }
  return text;
}

// A word of a command that a user can paste into a shell.
std::string shell_word(const std::string& word) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The program may change its folder before it uses CUDA, so the pattern becomes absolute here.
base::Result<std::string> absolute_pattern(const std::string& pattern) {
  if (pattern[0] == '/') return pattern;
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof(folder)) == nullptr) {
    return base::Status(base::StatusCode::io_error,
                        std::string("cannot tell the current folder: ") + std::strerror(errno));
  }
  std::string absolute;
  for (const char* c = folder; *c != '\0'; ++c) absolute += *c == '%' ? "%%" : std::string(1, *c);
  return absolute + "/" + pattern;
}

// A folder that is not there or closed is better told before the program has run for hours.
base::Status check_folder(const std::string& pattern) {
  const std::string folder_pattern = pattern.substr(0, pattern.rfind('/') + 1);
  const base::OutputFields fields = base::OutputFields::of_this_process();
  for (const char* field : {"%p", "%e", "%t", "%n"}) {
    if (folder_pattern.find(field) != std::string::npos) return {};  // only the recorder knows
  }
  const std::string folder = base::expand_output_pattern(folder_pattern, fields);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return {base::StatusCode::io_error,
          "cannot write traces to " + folder + ": " + std::strerror(errno)};
}

std::vector<TraceFile> matching_files(const std::string& pattern, const KnownFiles& known,
                                      KnownFiles* all) {
  std::vector<TraceFile> files;
  const std::string host = base::OutputFields::of_this_process().host;
  for (const std::string& expression : base::output_globs(pattern, host)) {
    glob_t matches{};
    if (glob(expression.c_str(), 0, nullptr, &matches) == 0) {
      for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
        struct stat facts {};
        const std::string path = matches.gl_pathv[i];
        if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
        const auto before = known.find(path);
        if (before != known.end() && before->second == facts.st_ino) continue;
        if (all->emplace(path, facts.st_ino).second) files.push_back({path, facts.st_size});
      }
    }
    globfree(&matches);
  }
  return files;
}

// The trace that a user most likely means: the started program's own, else the largest.
const TraceFile& main_trace(const std::vector<TraceFile>& traces, pid_t pid) {
  const std::string number = std::to_string(pid);
  const TraceFile* best = &traces.front();
  for (const TraceFile& trace : traces) {
    const std::string name = trace.path.substr(trace.path.rfind('/') + 1);
    if (name.find(number) != std::string::npos) return trace;
    if (trace.bytes > best->bytes) best = &trace;
  }
  return *best;
}

// `gpuidle report` in a process of its own: its standard output goes to standard error, and
// whatever happens to it, the program's exit code is still ours to give.
void print_report(const std::string& path) {
  std::fflush(stderr);
  const int saved_stdout = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  Environment environment = Environment::of_this_process();
  pid_t pid = 0;
  const base::Result<int> result =
      run_and_wait("/proc/self/exe", {"gpuidle", "report", path}, environment, &pid);
  if (saved_stdout >= 0) {
    dup2(saved_stdout, STDOUT_FILENO);
    close(saved_stdout);
  } else {
    close(STDOUT_FILENO);
  }
  if (!result.ok()) fail(result.status());
}

void say_where_traces_are(const std::vector<TraceFile>& traces, pid_t pid,
                          const RunOptions& options) {
  const TraceFile& main = main_trace(traces, pid);
  std::fprintf(stderr, "gpuidle: trace %s (%s)\n", main.path.c_str(),
               size_text(main.bytes).c_str());
  for (const TraceFile& trace : traces) {
    if (&trace == &main) continue;
    std::fprintf(stderr, "gpuidle: trace %s (%s), of another process\n", trace.path.c_str(),
                 size_text(trace.bytes).c_str());
  }
  if (options.wants_report) print_report(main.path);
  std::fprintf(stderr, "gpuidle: next: gpuidle %s %s\n", options.wants_report ? "gaps" : "report",
               shell_word(main.path).c_str());
}

void say_why_no_trace(const PreloadCheck& check, const base::Config& config) {
  if (!check.obstacle.empty()) {
    std::fprintf(stderr, "gpuidle: no trace was written: %s\n", check.obstacle.c_str());
    return;
  }
  std::fprintf(stderr,
               "gpuidle: no trace was written: no process used CUDA%s (also possible: it ran in a "
               "container or as another user, its environment was cleared, or it is statically "
               "linked)\n",
               config.start == base::StartMode::manual ? " and called gpuidle_start()" : "");
}

base::Status prepare_environment(const RunOptions& options, Environment& environment,
                                 base::Config* config, std::string* recorder) {
  for (const auto& [variable, value] : options.settings) environment.set(variable, value);
  std::vector<std::string> warnings;  // the recorder tells them, in the process they concern
  *config = base::Config::from(environment.pointers().data(), &warnings);
  base::Result<std::string> found = find_recorder(config->library);
  if (!found.ok()) return found.status();
  *recorder = found.take();
  base::Result<std::string> pattern = absolute_pattern(config->output);
  if (!pattern.ok()) return pattern.status();
  config->output = pattern.take();
  environment.set("GPUIDLE_OUTPUT", config->output);
  return check_folder(config->output);
}

void add_preload(Environment& environment, const std::string& recorder) {
  const char* others = environment.find("LD_PRELOAD");
  const bool has_others = others != nullptr && others[0] != '\0';
  environment.set("LD_PRELOAD", has_others ? recorder + ":" + others : recorder);
  // The driver's own door, for programs into which the loader puts nothing. Another tool's stays.
  if (environment.find("CUDA_INJECTION64_PATH") == nullptr) {
    environment.set("CUDA_INJECTION64_PATH", recorder);
  }
}

int could_not_start(const base::Status& status) {
  fail(status);
  return kCouldNotStart;
}

int run(const RunOptions& options) {
  Environment environment = Environment::of_this_process();
  base::Result<std::string> program = find_program(options.program.front(), environment);
  if (!program.ok()) return could_not_start(program.status());
  base::Config config;
  std::string recorder;
  const base::Status status = prepare_environment(options, environment, &config, &recorder);
  if (!status.ok()) return could_not_start(status);
  const PreloadCheck check = check_preload(program.value());
  if (!check.obstacle.empty() && !options.is_quiet) {
    std::fprintf(stderr, "gpuidle: %s; it runs, but may leave no trace\n", check.obstacle.c_str());
  }
  if (!check.would_complain) add_preload(environment, recorder);

  KnownFiles before;
  matching_files(config.output, {}, &before);
  pid_t pid = 0;
  const base::Result<int> result =
      run_and_wait(program.value(), options.program, environment, &pid);
  if (!result.ok()) return could_not_start(result.status());
  if (options.is_quiet) return result.value();

  KnownFiles seen;
  const std::vector<TraceFile> traces = matching_files(config.output, before, &seen);
  if (traces.empty()) {
    say_why_no_trace(check, config);
  } else {
    say_where_traces_are(traces, pid, options);
  }
  return result.value();
}

void add_setting(CLI::App& command, const base::SettingRow& row, RunOptions& options) {
  std::string help = row.help;
  if (row.choices[0] != '\0') help += " (" + std::string(row.choices) + ")";
  if (row.kind == base::SettingKind::number) {
    help += " (" + std::to_string(row.minimum) + " to " + std::to_string(row.maximum) + " " +
            row.unit + ")";
  }
  if (row.default_value[0] != '\0') help += " [" + std::string(row.default_value) + "]";
  const bool is_output = std::strcmp(row.variable, "GPUIDLE_OUTPUT") == 0;
  command
      .add_option_function<std::string>(
          (is_output ? "-o," : "") + row.option(),
          [&options, variable = row.variable](const std::string& value) {
            options.settings[variable] = value;
          },
          help)
      ->type_name(row.unit[0] != '\0' ? row.unit : "VALUE")
      ->check(
          [&row](const std::string& value) { return base::check_setting(row, value).message(); });
}

bool has_mark(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  return std::find(rest.begin(), rest.end(), "--") != rest.end();
}

// Everything from the program's name on is the program's, with or without "--" in front: options
// after it must not be taken for ours. CLI11's prefix_command() does that, but not behind "--", and
// a positional option does it behind "--" only; so the positional accepts nothing else.
void add_program(CLI::App& command, RunOptions& options) {
  command.prefix_command();
  command.validate_positionals();
  command.add_option("PROGRAM", options.program, "the program and its arguments")
      ->check([&command](const std::string&) { return has_mark(command) ? "" : "not marked"; });
}

void take_program(const CLI::App& command, RunOptions& options) {
  const std::vector<std::string> rest = command.remaining();
  if (options.program.empty() && !rest.empty() && rest.front() != "--") {
    if (rest.front().compare(0, 1, "-") == 0) throw CLI::ExtrasError({rest.front()});
    options.program = rest;
  }
  if (options.program.empty()) throw CLI::RequiredError("PROGRAM");
}

}  // namespace

void add_run(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Run a program and record how it feeds its GPUs: gpuidle run [OPTIONS] -- PROGRAM "
      "[ARGUMENTS...]");
  command->footer(
      "Exits like the program: its code, or 128 + the signal that ended it; 127 if it could not be "
      "started.\nEach setting can also be given as a variable, --ring-kib as GPUIDLE_RING_KIB; the "
      "option wins.");
  auto options = std::make_shared<RunOptions>();
  for (const base::SettingRow& row : base::setting_rows()) add_setting(*command, row, *options);
  add_program(*command, *options);
  command->add_flag("--report,!--no-report", options->wants_report,
                    "print the report on standard error when the program has ended [on]");
  command->add_flag("-q,--quiet", options->is_quiet,
                    "say nothing about the trace, print no report");
  command->callback([command, options, exit_code] {
    take_program(*command, *options);
    *exit_code = run(*options);
  });
}

}  // namespace gpuidle::cli
