// SPDX-License-Identifier: Apache-2.0
//
// gpuidle doctor: what would be recorded on this machine, and what stands in the way. Ends with
// one sentence and an exit code that scripts can test.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/json_writer.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/doctor.h"

namespace gpuidle::cli {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kIndent = 22;

struct DoctorOptions {
  bool is_json = false;
  std::string child;
};

const char* word_of(Finding finding) {
  switch (finding) {
    case Finding::good:
      return "ok";
    case Finding::note:
      return "note";
    case Finding::limited:
      return "limited";
    case Finding::broken:
      return "broken";
  }
  return "";
}

std::vector<Check> make_checks() {
  std::vector<Check> checks{check_system(), check_recorder(), check_output(), check_device_files()};
  const DriverFacts facts = ask_driver();
  for (Check (*check)(const DriverFacts&) :
       {check_driver, check_devices, check_cupti, check_trial}) {
    checks.push_back(check(facts));
  }
  for (Check (*check)() :
       {check_permissions, check_other_tools, check_container, check_ptrace, check_python}) {
    checks.push_back(check());
  }
  return checks;
}

Finding worst_of(const std::vector<Check>& checks) {
  Finding worst = Finding::good;
  for (const Check& check : checks) worst = std::max(worst, check.finding);
  return worst;
}

const char* conclusion(Finding worst) {
  if (worst == Finding::broken) return "Nothing can be recorded here; see what is broken.";
  if (worst == Finding::limited) return "Recordings will lack something; see what is limited.";
  return "CUDA programs can be recorded here in full.";
}

std::string text_of(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    std::string name = check.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    text += report::wrap(check.found, fmt::format("{:<8} {:<13}", word_of(check.finding), name),
                         kIndent);
    if (!check.remedy.empty()) {
      text += report::wrap("-> " + check.remedy, std::string(kIndent, ' '), kIndent + 3);
    }
  }
  return text + "\n" + conclusion(worst_of(checks)) + "\n";
}

std::string json_of(const std::vector<Check>& checks) {
  report::JsonWriter json;
  json.begin_object().field("schema", "gpuidle.doctor").field("version", kVersion);
  json.field("finding", word_of(worst_of(checks)));
  json.key("checks").begin_array();
  for (const Check& check : checks) {
    json.begin_object().field("name", check.name).field("finding", word_of(check.finding));
    json.field("found", check.found).field("remedy", check.remedy).end_object();
  }
  json.end_array().end_object();
  return json.take();
}

int examine(const DoctorOptions& options) {
  if (!options.child.empty()) return doctor_child(options.child);
  const std::vector<Check> checks = make_checks();
  const std::string shown = options.is_json ? json_of(checks) : text_of(checks);
  if (const base::Status printed = print(shown); !printed.ok()) return fail(printed);
  switch (worst_of(checks)) {
    case Finding::broken:
      return kFailed;
    case Finding::limited:
      return kIncomplete;
    default:
      return kDone;
  }
}

}  // namespace

void add_doctor(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "doctor", "What would be recorded on this machine, and what is in the way");
  auto options = std::make_shared<DoctorOptions>();
  command->add_flag("--json", options->is_json, "One JSON document instead of text");
  // How the doctor runs itself for questions whose answer may crash; not for users.
  command->add_option("--child", options->child)
      ->group("")
      ->check(CLI::IsMember({"driver", "launch"}));
  command->footer(
      "Exit codes: 0 everything can be recorded, 1 nothing can, 2 usage, 3 recordings will lack\n"
      "something.");
  command->callback([options, exit_code] { *exit_code = examine(*options); });
}

}  // namespace gpuidle::cli
