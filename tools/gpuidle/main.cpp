// SPDX-License-Identifier: Apache-2.0
//
// The gpuidle command: parses the command line and hands over to one cmd_<name>.cpp.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "libgpuidle/base/version.h"
#include "libgpuidle/report/format.h"
#include "tools/gpuidle/command.h"

namespace gpuidle::cli {
namespace {

int exit_code_of(base::StatusCode code) {
  switch (code) {
    case base::StatusCode::ok:
      return kDone;
    case base::StatusCode::invalid_argument:
      return kUsage;
    case base::StatusCode::wrong_format:
    case base::StatusCode::unsupported_version:
      return kWrongFormat;
    default:
      return kFailed;
  }
}

int run_command_line(int argc, char** argv) {
  int exit_code = kDone;
  CLI::App app{"Why is the GPU idle: how much, which call stacks, what to look at", "gpuidle"};
  app.set_version_flag("--version", std::string("gpuidle ") + base::kToolVersion +
                                        "\nreads and writes: gpuidle trace format 1.1\n"
                                        "reads: Kineto (PyTorch profiler) JSON, plain or gzip\n"
                                        "reads: Nsight Systems SQLite exports");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    // The innermost command that was named is the one whose help the user needs.
    std::string command = failed->get_name();
    for (const CLI::App* sub : failed->get_subcommands()) command += " " + sub->get_name();
    return "gpuidle: " + std::string(error.what()) + " (see '" + command + " --help')\n";
  });
  add_run(app, &exit_code);
  add_attach(app, &exit_code);
  add_repair(app, &exit_code);
  add_top(app, &exit_code);
  add_report(app, &exit_code);
  add_gaps(app, &exit_code);
  add_info(app, &exit_code);
  add_dump(app, &exit_code);
  add_convert(app, &exit_code);
  add_export(app, &exit_code);
  add_diff(app, &exit_code);
  add_doctor(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return exit_code;
}

}  // namespace

int fail(const base::Status& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "gpuidle: %s\n", status.message().c_str());
  return exit_code_of(status.code());
}

void warn(const std::string& text) {
  constexpr std::size_t kShownColumns = 400;
  std::fprintf(stderr, "gpuidle: warning: %s\n", report::elide(text, kShownColumns).c_str());
}

base::Status print(std::string_view text, std::string_view what) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return {};
  std::string message = "cannot write ";
  if (!what.empty()) message += std::string(what) + " ";
  return {base::StatusCode::io_error, message + "to standard output"};
}

}  // namespace gpuidle::cli

int main(int argc, char** argv) {
  try {
    return gpuidle::cli::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpuidle: %s\n", error.what());
    return gpuidle::cli::kFailed;
  }
}
