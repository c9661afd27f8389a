// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_model.h"

#include <cxxabi.h>
#include <fnmatch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "device/settings.h"

namespace simgpu {
namespace {

struct Rule {
  std::string pattern;
  int64_t duration_ns;
};

// A pattern may hold blanks ("void conv<float>*"), so the duration is the last word of the line.
std::vector<Rule>* read_rules() {
  auto* rules = new std::vector<Rule>;
  if (settings().kernels_file.empty()) return rules;
  std::ifstream file(settings().kernels_file);
  if (!file) std::fprintf(stderr, "simgpu: cannot read SIMGPU_KERNELS file\n");
  std::string line;
  while (std::getline(file, line)) {
    size_t end = line.find_last_not_of(" \t\r");
    size_t first = line.find_first_not_of(" \t");
    if (end == std::string::npos || line[first] == '#') continue;
    line.resize(end + 1);
    size_t blank = line.find_last_of(" \t");
    int64_t duration =
        blank == std::string::npos || blank < first ? -1 : parse_duration(line.c_str() + blank + 1);
    if (duration < 0) {
      std::fprintf(stderr, "simgpu: bad line in SIMGPU_KERNELS file: %s\n", line.c_str());
      continue;
    }
    size_t last = line.find_last_not_of(" \t", blank);
    rules->push_back({line.substr(first, last - first + 1), duration});
  }
  return rules;
}

}  // namespace

int64_t kernel_duration_ns(const std::string& name) {
  static const std::vector<Rule>* rules = read_rules();
  if (rules->empty()) return settings().default_kernel_ns;
  int status = 0;
  char* demangled = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  int64_t result = settings().default_kernel_ns;
  for (const Rule& rule : *rules) {
    if (fnmatch(rule.pattern.c_str(), name.c_str(), 0) == 0 ||
        (demangled && fnmatch(rule.pattern.c_str(), demangled, 0) == 0)) {
      result = rule.duration_ns;
      break;
    }
  }
  std::free(demangled);
  return result;
}

const char* intern(const std::string& name) {
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  return names->insert(name).first->c_str();
}

}  // namespace simgpu
