// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

namespace gpuidle::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxBytes = 64 * 1024;

[[noreturn]] void become(const std::string& path, char* const* arguments, char* const* environment,
                         int out, int err) {
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execve(path.c_str(), arguments, environment);
  _exit(127);
}

// False at the end of the pipe.
bool read_some(int fd, std::string* text) {
  std::array<char, 4096> part;
  const ssize_t count = read(fd, part.data(), part.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count > 0 && text->size() < kMaxBytes) {
    text->append(part.data(), static_cast<std::size_t>(count));
  }
  return count > 0;
}

// True when both pipes have ended, false when the time was up first.
bool read_until(Clock::time_point deadline, int out, int err, ChildOutput* child) {
  std::array<pollfd, 2> pipes{{{out, POLLIN, 0}, {err, POLLIN, 0}}};
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(pipes.data(), pipes.size(), static_cast<int>(left)) < 0 && errno != EINTR)
      return false;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (pipes[i].fd < 0 || pipes[i].revents == 0) continue;
      if (!read_some(pipes[i].fd, i == 0 ? &child->out : &child->err)) pipes[i].fd = -1;
    }
  }
  return true;
}

}  // namespace

ChildOutput run_and_read(const std::string& path, const std::vector<std::string>& arguments,
                         Environment& environment, int timeout_ms) {
  ChildOutput result;
  std::vector<char*> argument_pointers;
  for (const std::string& argument : arguments) {
    argument_pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  argument_pointers.push_back(nullptr);
  const std::vector<char*> environment_pointers = environment.pointers();
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return result;
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return result;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    become(path, argument_pointers.data(), environment_pointers.data(), out[1], err[1]);
  }
  close(out[1]);
  close(err[1]);
  if (pid > 0) {
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
    result.has_timed_out = !read_until(deadline, out[0], err[0], &result);
    if (result.has_timed_out) kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    result.has_started = result.exit_code != 127;
  }
  close(out[0]);
  close(err[0]);
  return result;
}

}  // namespace gpuidle::cli
