// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/base/log.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace gpuidle::base {
namespace {

// A log file in a folder of its own; standard error is the target again afterwards.
class LogFile {
 public:
  explicit LogFile(LogLevel level) {
    REQUIRE(mkdtemp(folder_) != nullptr);
    path_ = std::string(folder_) + "/log";
    configure_log(level, path_.c_str());
  }
  ~LogFile() {
    configure_log(LogLevel::warning, nullptr);
    unlink(path_.c_str());
    rmdir(folder_);
  }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  char folder_[32] = "/tmp/gpuidle-log-XXXXXX";
  std::string path_;
};

TEST_CASE("a line names process, thread and level", "[log][unit]") {
  LogFile file(LogLevel::info);
  log_line(LogLevel::info, "ring of %d KiB", 64);
  const std::string pid = std::to_string(getpid());  // the main thread's id equals it
  CHECK(file.text() == "gpuidle[" + pid + ":" + pid + "] info: ring of 64 KiB\n");
}

TEST_CASE("what is more detailed than asked is not written", "[log][unit]") {
  LogFile file(LogLevel::warning);
  log_line(LogLevel::info, "hidden");
  CHECK(file.text().empty());
  log_line(LogLevel::error, "shown");
  CHECK(file.text().find("error: shown\n") != std::string::npos);
}

TEST_CASE("a line that is too long is cut to the limit and marked", "[log][unit]") {
  LogFile file(LogLevel::warning);
  log_line(LogLevel::warning, "%s", std::string(2 * kMaxLogLine, 'x').c_str());
  const std::string text = file.text();
  CHECK(text.size() <= kMaxLogLine);
  CHECK(text.size() > kMaxLogLine - 8);
  CHECK(text.substr(text.size() - 5) == "x...\n");
}

TEST_CASE("control characters cannot forge a second line", "[log][unit]") {
  LogFile file(LogLevel::warning);
  log_line(LogLevel::warning, "file '%s'", "a\nb\x1b[31m");
  const std::string text = file.text();
  CHECK(text.find("file 'a?b?[31m'\n") != std::string::npos);
}

TEST_CASE("each kind is said once and counted every time", "[log][unit]") {
  static LogKind kind;
  LogFile file(LogLevel::warning);
  for (int i = 0; i < 3; ++i) log_once(kind, LogLevel::warning, "event %d", i);
  const std::string text = file.text();
  CHECK(text.find("event 0") != std::string::npos);
  CHECK(text.find("event 1") == std::string::npos);
  CHECK(kind.times == 3);

  SECTION("a forked child may say it again") {
    const pid_t child = fork();
    if (child == 0) {
      log_once(kind, LogLevel::warning, "event of the child");
      _exit(0);
    }
    REQUIRE(waitpid(child, nullptr, 0) == child);
    CHECK(file.text().find("event of the child") != std::string::npos);
  }
}

TEST_CASE("errno is the same after a line as before", "[log][unit]") {
  LogFile file(LogLevel::warning);
  errno = ENOSPC;
  log_line(LogLevel::warning, "full");
  CHECK(errno == ENOSPC);
  CHECK(file.text().find("full") != std::string::npos);
}

TEST_CASE("a log file that cannot be written leaves standard error", "[log][unit]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    configure_log(LogLevel::warning, "/nonexistent/folder/log");
    log_line(LogLevel::warning, "heard");
    _exit(0);
  }
  close(ends[1]);
  char text[kMaxLogLine] = "";
  REQUIRE(read(ends[0], text, sizeof(text) - 1) > 0);
  close(ends[0]);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(std::string(text).find("warning: heard\n") != std::string::npos);
}

}  // namespace
}  // namespace gpuidle::base
