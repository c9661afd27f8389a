// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/launch.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>

namespace gpuidle::cli {
namespace {

using base::Status;
using base::StatusCode;

constexpr int kForwarded[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

bool is_regular(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

std::string first_bytes(const std::string& path, std::size_t count) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(count, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// True if the program asks for a dynamic loader. `header` is whole and 64-bit.
bool has_interpreter(const std::string& path, const Elf64_Ehdr& header) {
  std::ifstream file(path, std::ios::binary);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    file.seekg(static_cast<std::streamoff>(header.e_phoff + std::uint64_t{header.e_phentsize} * i));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return true;  // not our say
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

std::string interpreter_of(const std::string& script_head) {
  const std::size_t begin = script_head.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return {};
  return script_head.substr(begin, script_head.find_first_of(" \t\r\n", begin) - begin);
}

// The launcher's side of signals. The handler may run at any time; it reads one word.
volatile sig_atomic_t g_child = 0;

void forward(int signal, siginfo_t* info, void*) {
  // What the terminal's driver sends (SI_KERNEL) has gone to the program as well.
  const bool from_terminal = info->si_code == SI_KERNEL && signal != SIGTERM;
  if (g_child > 0 && !from_terminal) kill(static_cast<pid_t>(g_child), signal);
}

// Installs the forwarding for as long as it lives; what was ignored (nohup) stays ignored.
class Forwarding {
 public:
  Forwarding() {
    struct sigaction action {};
    action.sa_sigaction = forward;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < std::size(kForwarded); ++i) {
      sigaction(kForwarded[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kForwarded[i], &action, nullptr);
    }
  }
  ~Forwarding() {
    g_child = 0;
    for (std::size_t i = 0; i < std::size(kForwarded); ++i) {
      sigaction(kForwarded[i], &before_[i], nullptr);
    }
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

 private:
  struct sigaction before_[std::size(kForwarded)]{};
};

// In the child: become the program, or tell the parent by `report` why not. exec puts handlers back
// to the default.
[[noreturn]] void become(const std::string& path, char* const* arguments, char* const* environment,
                         const sigset_t& mask, int report) {
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(path.c_str(), arguments, environment);
  const int reason = errno;
  const ssize_t written = write(report, &reason, sizeof(reason));
  _exit(written == sizeof(reason) ? 127 : 126);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Environment Environment::of_this_process() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) result.entries_.emplace_back(*entry);
  return result;
}

void Environment::set(const std::string& name, const std::string& value) {
  const std::string start = name + "=";
  for (std::string& entry : entries_) {
    if (entry.compare(0, start.size(), start) == 0) {
      entry = start + value;
      return;
    }
  }
  entries_.push_back(start + value);
}

const char* Environment::find(const std::string& name) const {
  const std::string start = name + "=";
  for (const std::string& entry : entries_) {
    if (entry.compare(0, start.size(), start) == 0) return entry.c_str() + start.size();
  }
  return nullptr;
}

std::vector<char*> Environment::pointers() {
  std::vector<char*> result;
  for (std::string& entry : entries_) result.push_back(entry.data());
  result.push_back(nullptr);
  return result;
}

base::Result<std::string> find_program(const std::string& name, const Environment& environment) {
  const auto denied = [](const std::string& path) {
    return Status(StatusCode::permission_denied,
                  "cannot run " + path + ": it is not an executable file");
  };
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), F_OK) != 0) {
      return Status(StatusCode::not_found, "cannot run " + name + ": " + std::strerror(errno));
    }
    if (!is_regular(name) || access(name.c_str(), X_OK) != 0) return denied(name);
    return name;
  }
  const char* path_variable = environment.find("PATH");
  const std::string path =
      path_variable != nullptr ? path_variable : "/usr/local/bin:/usr/bin:/bin";
  std::string not_executable;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_regular(candidate)) {
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
      not_executable = candidate;
    }
    begin = end + 1;
  }
  if (!not_executable.empty()) return denied(not_executable);
  return Status(StatusCode::not_found, "cannot run " + name + ": no such program in PATH");
}

PreloadCheck check_preload(const std::string& path) {
  std::string head = first_bytes(path, 256);
  std::string file = path;
  if (head.compare(0, 2, "#!") == 0) {
    file = interpreter_of(head);
    head = first_bytes(file, 256);
  }
  if (head.size() < sizeof(Elf32_Ehdr) || head.compare(0, SELFMAG, ELFMAG) != 0) return {};
  if (head[EI_CLASS] != ELFCLASS64) {
    return {file + " is a 32-bit program, the recorder is 64-bit", true};
  }
  Elf64_Ehdr header;
  if (head.size() < sizeof(header)) return {};
  std::memcpy(&header, head.data(), sizeof(header));
  if (!has_interpreter(file, header)) {
    return {file + " is statically linked, so that nothing can be preloaded into it", false};
  }
  struct stat facts {};
  const bool known = stat(file.c_str(), &facts) == 0;
  const bool changes_user = known && (facts.st_mode & S_ISUID) != 0 && facts.st_uid != geteuid();
  const bool changes_group = known && (facts.st_mode & S_ISGID) != 0 && facts.st_gid != getegid();
  if (changes_user || changes_group) {
    return {file +
                " runs with the rights of another user (setuid or setgid), for which the loader "
                "ignores preloads",
            false};
  }
  return {};
}

base::Result<std::string> find_recorder(const std::string& configured) {
  std::string found = configured;
  std::string looked;
  if (configured.empty()) {
    char self[PATH_MAX + 1] = "";
    const ssize_t length = readlink("/proc/self/exe", self, PATH_MAX);
    const std::string binary(self, length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::string folder = binary.substr(0, binary.rfind('/'));
    for (const char* place :
         {"", "/../lib", "/../lib64", "/../lib/x86_64-linux-gnu", "/../lib/aarch64-linux-gnu"}) {
      const std::string candidate = folder + place + "/libgpuidle.so";
      if (found.empty() && access(candidate.c_str(), R_OK) == 0) found = candidate;
    }
    looked = " in " + folder + " and " + folder + "/../lib";
  }
  char real[PATH_MAX];
  if (found.empty() || realpath(found.c_str(), real) == nullptr || access(real, R_OK) != 0) {
    return Status(StatusCode::not_found,
                  configured.empty()
                      ? "libgpuidle.so was not found" + looked + "; set GPUIDLE_LIBRARY to its path"
                      : "cannot read " + configured +
                            ", which GPUIDLE_LIBRARY names: " + std::strerror(errno));
  }
  if (std::strpbrk(real, " :") != nullptr) {
    return Status(StatusCode::invalid_argument,
                  "the loader cannot preload '" + std::string(real) +
                      "': its path has a space or a colon; copy it elsewhere and set "
                      "GPUIDLE_LIBRARY");
  }
  return std::string(real);
}

base::Result<int> run_and_wait(const std::string& path, const std::vector<std::string>& arguments,
                               Environment& environment, pid_t* pid) {
  const auto failed = [&path](int reason) {
    return Status(StatusCode::unavailable, "cannot run " + path + ": " + std::strerror(reason));
  };
  std::vector<char*> argument_pointers;
  for (const std::string& argument : arguments) {
    argument_pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  argument_pointers.push_back(nullptr);
  const std::vector<char*> environment_pointers = environment.pointers();

  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return failed(errno);
  // A signal between fork and the note of the child's id waits until it can be passed on.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const Forwarding forwarding;
  const pid_t child = fork();
  const int fork_reason = errno;
  if (child == 0) {
    become(path, argument_pointers.data(), environment_pointers.data(), before, report[1]);
  }
  g_child = child > 0 ? child : 0;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(report[1]);
  int reason = 0;
  ssize_t got = 0;
  if (child > 0) {
    do {
      got = read(report[0], &reason, sizeof(reason));
    } while (got < 0 && errno == EINTR);
  }
  close(report[0]);
  if (child < 0) return failed(fork_reason);
  *pid = child;
  const int exit_code = wait_for(child);
  if (got == static_cast<ssize_t>(sizeof(reason))) return failed(reason);
  return exit_code;
}

}  // namespace gpuidle::cli
