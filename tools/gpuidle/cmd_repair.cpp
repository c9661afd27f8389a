// SPDX-License-Identifier: Apache-2.0
//
// gpuidle repair: puts back a thread that an attach left borrowed because it was killed meanwhile.
#include <cstdio>
#include <memory>

#include "tools/gpuidle/command.h"
#include "tools/gpuidle/inject/injector.h"
#include "tools/gpuidle/process_facts.h"

namespace gpuidle::cli {
namespace {

int run_repair(pid_t pid) {
  base::Result<ProcessFacts> process = read_process(pid);
  if (!process.ok()) return fail_attach(process.status());
  base::Result<bool> repaired = repair(process.value());
  if (!repaired.ok()) return fail_attach(repaired.status());
  std::printf("%s: %s\n", process.value().label().c_str(),
              repaired.value() ? "its borrowed thread was put back" : "nothing to put back");
  return kDone;
}

}  // namespace

void add_repair(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "repair", "Put back a thread of PID that a killed 'gpuidle attach' left asleep");
  auto pid = std::make_shared<pid_t>(0);
  command->add_option("PID", *pid, "the process")->required()->check(CLI::PositiveNumber);
  command->footer(
      "The next 'gpuidle attach' does the same by itself.\n"
      "Exit codes: 0 done or nothing to do, 2 usage, 7 no such process, 8 not permitted, 9 not "
      "now.");
  command->callback([pid, exit_code] { *exit_code = run_repair(*pid); });
}

}  // namespace gpuidle::cli
