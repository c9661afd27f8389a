// SPDX-License-Identifier: Apache-2.0
//
// Which Python interpreters a user would start here, and whether their frames can be read.
#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "libgpuidle/stacks/python_layouts.h"
#include "tools/gpuidle/child_output.h"
#include "tools/gpuidle/doctor.h"

namespace gpuidle::cli {
namespace {

constexpr int kTimeout_ms = 10'000;
constexpr int kOldestMinor = 8;
constexpr int kNewestMinor = 15;

// One word per fact; a path with a space is the last one.
constexpr char kQuestion[] =
    "import sys, sysconfig; v = sys.version_info; "
    "print(sys.implementation.name, v[0], v[1], v[2], v[3], "
    "int(hasattr(sys, 'gettotalrefcount')), "
    "int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))), sys.executable)";

struct Interpreter {
  std::string implementation;
  int major = 0;
  int minor = 0;
  int micro = 0;
  std::string level;  // alpha, beta, candidate, final
  int is_debug = 0;
  int is_free_threaded = 0;
  std::string executable;
};

bool ask(const std::string& path, Interpreter* answer) {
  Environment environment = Environment::of_this_process();
  const ChildOutput seen =
      run_and_read(path, {path, "-I", "-S", "-c", kQuestion}, environment, kTimeout_ms);
  if (seen.exit_code != 0 || seen.has_timed_out) return false;
  std::istringstream words(seen.out);
  words >> answer->implementation >> answer->major >> answer->minor >> answer->micro >>
      answer->level >> answer->is_debug >> answer->is_free_threaded >> std::ws;
  return static_cast<bool>(words) && static_cast<bool>(std::getline(words, answer->executable));
}

// "" = its frames can be read.
std::string why_not(const Interpreter& python) {
  if (python.implementation != "cpython") return "is " + python.implementation + ", not CPython";
  if (python.major != 3 || stacks::python_layout(python.minor) == nullptr) {
    return "is neither of 3.8 to 3.15";
  }
  if (python.level == "alpha" || python.level == "beta") return "is an alpha or beta version";
  if (python.is_debug != 0) return "is a debug build";
  if (python.is_free_threaded != 0) return "is a free-threaded build";
#if !defined(__x86_64__)
  return "runs on an architecture whose layouts are not known";
#else
  return {};
#endif
}

// What a user would type first, first.
std::vector<std::string> names_in_order() {
  std::vector<std::string> names{"python", "python3"};
  for (int minor = kNewestMinor; minor >= kOldestMinor; --minor) {
    names.push_back("python3." + std::to_string(minor));
  }
  return names;
}

}  // namespace

Check check_python() {
  Check check{"python", Finding::good, "", ""};
  const Environment environment = Environment::of_this_process();
  std::set<std::string> known;
  std::string refused;
  bool is_first = true;
  for (const std::string& name : names_in_order()) {
    const base::Result<std::string> path = find_program(name, environment);
    Interpreter python;
    if (!path.ok() || !ask(path.value(), &python)) continue;
    char real[PATH_MAX];
    const bool is_real = realpath(python.executable.c_str(), real) != nullptr;
    if (!known.insert(is_real ? real : python.executable).second) continue;
    const std::string reason = why_not(python);
    const std::string text = python.executable + " " + std::to_string(python.major) + "." +
                             std::to_string(python.minor) + "." + std::to_string(python.micro);
    if (reason.empty()) {
      check.found += (check.found.empty() ? "" : ", ") + text;
    } else {
      refused += (refused.empty() ? "" : ", ") + text + " " + reason;
      if (is_first) check.finding = Finding::limited;
    }
    is_first = false;
  }
  if (is_first) return {"python", Finding::note, "no interpreter in PATH", ""};
  if (!check.found.empty()) check.found = "frames can be read of " + check.found;
  if (!refused.empty()) {
    check.found += (check.found.empty() ? "" : "; ") + std::string("not of ") + refused;
    if (check.finding == Finding::limited) {
      check.remedy =
          "stacks of the interpreter that is found first lack Python frames; use "
          "CPython 3.8 to 3.15";
    }
  }
  return check;
}

}  // namespace gpuidle::cli
