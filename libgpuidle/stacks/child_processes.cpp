// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/child_processes.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "libgpuidle/stacks/thread_look.h"

namespace gpuidle::stacks {
namespace {

// Numbers among the names in a folder.
std::vector<int> numbers_in(const char* folder) {
  std::vector<int> numbers;
  DIR* const directory = opendir(folder);
  if (directory == nullptr) return numbers;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
      numbers.push_back(std::atoi(entry->d_name));
    }
  }
  closedir(directory);
  return numbers;
}

}  // namespace

const std::vector<int>& ChildProcesses::list() {
  children_.clear();
  if (!list_by_kernel()) list_by_search();
  if (children_.size() > kMaxChildren) children_.resize(kMaxChildren);
  return children_;
}

// False: this kernel has no lists (they are an option of its build).
bool ChildProcesses::list_by_kernel() {
  const std::string own = "/proc/self/task/" + std::to_string(getpid()) + "/children";
  if (access(own.c_str(), R_OK) != 0) return false;
  for (const int tid : numbers_in("/proc/self/task")) {
    char text[1024];
    const ProcFolder folder = ProcFolder::of_own_thread(tid);
    const std::size_t count = read_proc(folder, "children", text, sizeof(text) - 1);
    text[count] = '\0';
    for (char* at = text; *at != '\0';) {
      char* end = nullptr;
      const long pid = std::strtol(at, &end, 10);
      if (end == at) break;
      children_.push_back(static_cast<int>(pid));
      at = *end == ' ' ? end + 1 : end;
    }
  }
  return true;
}

void ChildProcesses::list_by_search() {
  const int own = static_cast<int>(getpid());
  std::vector<int> strangers;
  for (const int pid : numbers_in("/proc")) {
    if (pid == own) continue;
    bool is_stranger = std::binary_search(strangers_.begin(), strangers_.end(), pid);
    if (!is_stranger) {
      char text[512];
      const std::size_t count = read_proc(ProcFolder::of_process(pid), "stat", text, sizeof(text));
      const ThreadStatus status = parse_thread_status({text, count});
      is_stranger = status.parent != own;
      if (!is_stranger) children_.push_back(pid);
    }
    if (is_stranger) strangers.push_back(pid);
  }
  std::sort(strangers.begin(), strangers.end());
  strangers_ = std::move(strangers);
}

}  // namespace gpuidle::stacks
