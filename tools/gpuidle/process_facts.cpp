// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/process_facts.h"

#include <dirent.h>
#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace gpuidle::cli {
namespace {

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

bool read_status(ProcessFacts& facts) {
  std::ifstream status(folder_of(facts.pid) + "/status");
  bool has_state = false;
  for (std::string line; std::getline(status, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    const char* value = line.c_str() + colon + 1;
    value += std::strspn(value, " \t");
    if (key == "Name") facts.name = printable(value);
    if (key == "State") {
      facts.state = *value;
      has_state = true;
    }
    if (key == "TracerPid") facts.tracer = std::atoi(value);
    if (key == "Seccomp") facts.seccomp = std::atoi(value);
    unsigned real = 0;
    unsigned effective = 0;
    if (key == "Uid" && std::sscanf(value, "%u %u", &real, &effective) == 2) facts.user = effective;
  }
  return has_state;
}

bool parse_line(const std::string& line, MappedRange* range) {
  char rights[5] = "";
  int path_at = 0;
  unsigned long begin = 0;
  unsigned long end = 0;
  unsigned long offset = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %*s %n", &begin, &end, rights, &offset,
                  &path_at) < 4) {
    return false;
  }
  range->begin = begin;
  range->end = end;
  range->file_offset = offset;
  range->is_writable = rights[1] == 'w';
  range->is_executable = rights[2] == 'x';
  if (path_at > 0 && static_cast<std::size_t>(path_at) < line.size()) {
    range->path = line.substr(static_cast<std::size_t>(path_at));
  }
  return true;
}

void note_library(const std::string& path, ProcessFacts& facts) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const auto begins = [&name](const char* start) {
    return name.compare(0, std::strlen(start), start) == 0;
  };
  if (begins("libcuda.so")) facts.has_cuda = true;
  // One that an attach put there has another name: where it makes no block, it may be put there
  // again.
  if (begins("libgpuidle.so")) facts.has_recorder = true;
  if (begins("ld-musl-") || begins("libc.musl-")) facts.has_musl = true;
}

void read_maps(ProcessFacts& facts) {
  errno = 0;
  std::FILE* file = std::fopen((folder_of(facts.pid) + "/maps").c_str(), "re");
  facts.open_error = file == nullptr ? errno : 0;
  if (file == nullptr) return;
  char* line = nullptr;
  std::size_t capacity = 0;
  ssize_t length = 0;
  while ((length = getline(&line, &capacity, file)) > 0) {
    std::string text(line, static_cast<std::size_t>(length));
    if (text.back() == '\n') text.pop_back();
    MappedRange range;
    if (!parse_line(text, &range)) continue;
    note_library(range.path, facts);
    facts.maps.push_back(std::move(range));
  }
  // The right to look is checked when the first line is made.
  if (facts.maps.empty() && std::ferror(file) != 0) facts.open_error = errno;
  std::free(line);
  std::fclose(file);
  facts.is_readable = facts.open_error == 0;
}

// Class and linkage come from the running image: the file may have been replaced since.
void read_image(ProcessFacts& facts) {
  std::ifstream executable(folder_of(facts.pid) + "/exe", std::ios::binary);
  char ident[EI_NIDENT] = "";
  if (executable.read(ident, sizeof(ident)) && std::memcmp(ident, ELFMAG, SELFMAG) == 0) {
    facts.is_64_bit = ident[EI_CLASS] == ELFCLASS64;
  }
  if (!facts.is_64_bit) return;
  std::ifstream auxiliary(folder_of(facts.pid) + "/auxv", std::ios::binary);
  Elf64_auxv_t entry{};
  bool has_any = false;
  bool has_loader = false;
  while (auxiliary.read(reinterpret_cast<char*>(&entry), sizeof(entry)) &&
         entry.a_type != AT_NULL) {
    has_any = true;
    if (entry.a_type == AT_BASE && entry.a_un.a_val != 0) has_loader = true;
  }
  facts.is_static = has_any && !has_loader;
}

}  // namespace

std::string ProcessFacts::label() const {
  return "process " + std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

base::Result<ProcessFacts> read_process(pid_t pid) {
  ProcessFacts facts;
  facts.pid = pid;
  if (!read_status(facts)) {
    return base::Status(base::StatusCode::not_found, "there is no process " + std::to_string(pid));
  }
  read_maps(facts);
  if (facts.is_readable) read_image(facts);
  return facts;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return pids;
  while (const dirent* entry = readdir(folder)) {
    char* end = nullptr;
    const long number = std::strtol(entry->d_name, &end, 10);
    if (*end == '\0' && number > 0 && number <= INT32_MAX) {
      pids.push_back(static_cast<pid_t>(number));
    }
  }
  closedir(folder);
  std::sort(pids.begin(), pids.end());
  return pids;
}

}  // namespace gpuidle::cli
