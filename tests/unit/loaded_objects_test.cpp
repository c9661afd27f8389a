// SPDX-License-Identifier: Apache-2.0
//
// Children that are forked while one of our threads looks at the list of loaded libraries: the lock
// of that list, which the C library does not put right in a child, is never theirs.
#include "libgpuidle/base/loaded_objects.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

using namespace gpuidle;

namespace {

int look(dl_phdr_info*, std::size_t, void*) { return 0; }

// True: the child looked at the list and opened a library. False: it hung, and was ended.
bool child_can_use_the_list() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    dl_iterate_phdr(&look, nullptr);
    _exit(dlopen("libm.so.6", RTLD_NOW) != nullptr ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("a child never inherits the lock of the list of libraries from a thread of ours",
          "[base][unit]") {
  REQUIRE(pthread_atfork(base::hold_loaded_objects_before_fork,
                         base::free_loaded_objects_after_fork,
                         base::free_loaded_objects_after_fork) == 0);
  std::atomic<bool> has_ended{false};
  std::atomic<std::uint64_t> looks{0};
  std::thread looking([&] {
    while (!has_ended) {
      base::for_each_loaded_object(&look, nullptr);
      ++looks;
    }
  });
  int hung = 0;
  for (int i = 0; i < 200; ++i) hung += child_can_use_the_list() ? 0 : 1;
  const std::uint64_t looks_while_forking = looks;
  has_ended = true;
  looking.join();
  CHECK(hung == 0);
  CHECK(looks_while_forking > 0);
}

TEST_CASE("forks of several threads at a time leave the list free", "[base][unit]") {
  std::atomic<int> hung{0};
  std::thread threads[3];
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < 30; ++i) hung += child_can_use_the_list() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(hung == 0);
  CHECK(base::for_each_loaded_object(&look, nullptr) == 0);
}
