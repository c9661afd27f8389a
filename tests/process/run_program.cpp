// SPDX-License-Identifier: Apache-2.0
//
// The host program of the process tests: feeds a device for some steps and then ends in the way
// that it is told to. Uses no device code, so it needs no nvcc. Fed by the run_*_test.py drivers;
// prints what any observer must leave unchanged.
//   run_program STEPS END    END: return, exit, _exit, abort, segfault, thread_exit, fork, spawn
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/process/device_feeder.h"

namespace {

// The child must not touch what the parent's observer has open, and may end with or without exit
// handlers.
void fork_children(DeviceFeeder* feeder, int steps) {
  for (const bool has_exit_handlers : {false, true}) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      if (has_exit_handlers) std::exit(5);
      _exit(5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    feeder->run(steps);
  }
}

// A child that is a CUDA program of its own.
void spawn(const char* program) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, "5", "exit", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

[[noreturn]] void end(const std::string& how) {
  std::fflush(stdout);
  if (how == "exit") std::exit(3);
  if (how == "_exit") _exit(4);
  if (how == "abort") std::abort();
  if (how == "segfault") std::raise(SIGSEGV);
  if (how == "thread_exit") {
    std::thread([] { std::exit(6); }).join();
  }
  std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: run_program STEPS END\n");
    return 2;
  }
  const int steps = std::atoi(argv[1]);
  const std::string how = argv[2];
  DeviceFeeder feeder;
  feeder.run(steps);
  std::printf("%d steps, then %s\n", steps, how.c_str());
  if (how == "return") return 0;
  if (how == "fork") fork_children(&feeder, steps);
  if (how == "spawn") spawn(argv[0]);
  end(how);
}
