// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/throttling.h"

#include <cstdlib>
#include <cstring>

#include "libgpuidle/stacks/thread_look.h"

namespace gpuidle::stacks {
namespace {

struct Place {
  const char* mark;    // in front of the group's path in /proc/self/cgroup
  const char* folder;  // without the first slash
  const char* word;
  std::uint64_t unit_ns;
};
constexpr Place kPlaces[] = {
    {"0::", "sys/fs/cgroup", "throttled_usec ", 1000},
    {":cpu,cpuacct:", "sys/fs/cgroup/cpu,cpuacct", "throttled_time ", 1},
    {":cpu:", "sys/fs/cgroup/cpu", "throttled_time ", 1},
};

std::string read_text(const std::string& file) {
  const ProcFolder root;
  std::string text(4096, '\0');
  text.resize(read_proc(root, file.c_str(), text.data(), text.size()));
  return text;
}

}  // namespace

void Throttling::find() {
  const std::string groups = read_text("proc/self/cgroup");
  for (const Place& place : kPlaces) {
    const std::size_t at = groups.find(place.mark);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + std::strlen(place.mark);
    const std::string path = groups.substr(begin, groups.find('\n', begin) - begin);
    // In a container the path may be that of the host, while the mount shows its own group.
    for (const std::string& inner : {path, std::string()}) {
      const std::string file = place.folder + inner + "/cpu.stat";
      if (read_text(file).find(place.word) == std::string::npos) continue;
      file_ = file;
      word_ = place.word;
      unit_ns_ = place.unit_ns;
      return;
    }
  }
}

std::uint64_t Throttling::total_ns() const {
  if (file_.empty()) return 0;
  const std::string text = read_text(file_);
  const std::size_t at = text.find(word_);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + std::strlen(word_), nullptr, 10) * unit_ns_;
}

}  // namespace gpuidle::stacks
