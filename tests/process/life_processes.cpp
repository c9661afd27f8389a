// SPDX-License-Identifier: Apache-2.0
//
// A program that uses the device and makes other processes in the way that it is told to. Fed by
// life_processes_test.py; prints what any observer must leave unchanged.
//   life_processes HOW    HOW: vfork, posix_spawn, system, popen, raw_fork, fork_before, daemon,
//                         exec, exec_fails, child (what others start: uses the device itself)
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/process/device_feeder.h"

namespace {

constexpr int kSteps = 8;

const char* g_self = nullptr;

int status_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void say(const char* what, int status) {
  std::printf("%s: %d\n", what, status);
  std::fflush(stdout);
}

// A vfork child shares the parent's memory until it is gone: whatever the recorder's _exit does
// there, it does to the parent.
__attribute__((noinline)) int vfork_and_leave() {
  const pid_t child = vfork();
  if (child == 0) _exit(7);
  return status_of(child);
}

__attribute__((noinline)) int vfork_and_become() {
  const pid_t child = vfork();
  if (child == 0) {
    execl(g_self, g_self, "child", static_cast<char*>(nullptr));
    _exit(127);
  }
  return status_of(child);
}

void by_vfork() {
  int sum = 0;
  for (int i = 0; i < 20; ++i) sum += vfork_and_leave();
  say("twenty times vfork and _exit", sum);
  say("vfork and exec", vfork_and_become());
}

void by_posix_spawn() {
  pid_t child = 0;
  const char* arguments[] = {g_self, "child", nullptr};
  const int error =
      posix_spawn(&child, g_self, nullptr, nullptr, const_cast<char**>(arguments), environ);
  say("posix_spawn", error != 0 ? -error : status_of(child));
}

void by_popen() {
  FILE* pipe = popen((std::string(g_self) + " child").c_str(), "r");
  char line[64] = "";
  if (pipe == nullptr || std::fgets(line, sizeof(line), pipe) == nullptr) std::exit(8);
  std::printf("popen said %s", line);
  say("popen", WEXITSTATUS(pclose(pipe)));
}

// Past the C library, so that no fork handler runs.
void by_raw_fork() {
  const long child = syscall(SYS_fork);
  if (child == 0) {
    if (cudaDeviceSynchronize() == 0) _exit(1);  // CUDA does not survive a fork
    _exit(6);
  }
  say("raw fork", status_of(static_cast<pid_t>(child)));
}

// The pool of workers that was made before CUDA was used: each process starts CUDA on its own.
int fork_before() {
  pid_t children[3];
  for (pid_t& child : children) {
    child = fork();
    if (child == 0) {
      DeviceFeeder feeder;
      feeder.run(kSteps);
      _exit(5);
    }
  }
  DeviceFeeder feeder;
  feeder.run(kSteps);
  for (const pid_t child : children) say("worker", status_of(child));
  return 0;
}

// The grandchild works on when the program that was started has ended.
int daemon_by_two_forks() {
  int done[2];
  if (pipe(done) != 0) return 8;
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    DeviceFeeder feeder;
    feeder.run(kSteps);
    const char byte = 'd';
    if (write(done[1], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  say("first child", status_of(child));
  char byte = 0;
  if (read(done[0], &byte, 1) != 1) return 8;
  std::printf("the daemon says %c\n", byte);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: life_processes HOW\n");
    return 2;
  }
  g_self = argv[0];
  const std::string how = argv[1];
  if (how == "fork_before") return fork_before();
  if (how == "daemon") return daemon_by_two_forks();
  DeviceFeeder feeder;
  feeder.run(kSteps);
  if (how == "vfork") by_vfork();
  if (how == "posix_spawn") by_posix_spawn();
  if (how == "system") {
    say("system", WEXITSTATUS(std::system((std::string(g_self) + " child").c_str())));
  }
  if (how == "popen") by_popen();
  if (how == "raw_fork") by_raw_fork();
  if (how == "exec_fails") {
    say("exec", execl("/nonexistent", "/nonexistent", static_cast<char*>(nullptr)));
  }
  feeder.run(kSteps);
  if (how == "exec") execl(g_self, g_self, "child", static_cast<char*>(nullptr));
  say(how.c_str(), kSteps);
  return how == "child" ? 3 : 0;
}
