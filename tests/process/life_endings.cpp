// SPDX-License-Identifier: Apache-2.0
//
// A program that ends in the way that it is told to, while two threads launch without a pause. Fed
// by life_endings_test.py. run_program has the plain ways; here is what races with them.
//   life_endings HOW    HOW: return, exit, _exit, quick_exit, exit_group, main_thread_first,
//                       other_thread, two_exits, atexit_cuda, atexit_exit, atexit__exit, term, int,
//                       kill, handler_exit, handler__exit, terminate, alarm
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/process/device_feeder.h"

namespace {

std::atomic<long> g_launches{0};
DeviceFeeder* g_feeder = nullptr;

void launch_for_ever() {
  g_feeder->use_in_this_thread();
  for (;;) {
    g_feeder->launch();
    if (g_launches.fetch_add(1) % 100 == 0) g_feeder->synchronize();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void wait_for(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

void end_by_signal(int signal) {
  raise(signal);
  pause();
}

void end_by_handler(void (*handler)(int)) {
  std::signal(SIGUSR1, handler);
  raise(SIGUSR1);
}

void end_by_threads(const std::string& how) {
  if (how == "other_thread") std::thread([] { std::exit(6); }).join();
  if (how == "two_exits") {
    std::thread([] { _exit(7); }).detach();
    _exit(7);
  }
  if (how == "main_thread_first") {
    std::thread([] {
      wait_for(std::chrono::milliseconds(100));
      std::exit(8);
    }).detach();
    pthread_exit(nullptr);
  }
}

void end_by_handlers_of_exit(const std::string& how) {
  if (how == "atexit_cuda") std::atexit([] { g_feeder->run(3); });
  if (how == "atexit_exit") std::atexit([] { std::exit(11); });
  if (how == "atexit__exit") std::atexit([] { _exit(12); });
  std::exit(10);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: life_endings HOW\n");
    return 2;
  }
  const std::string how = argv[1];
  g_feeder = new DeviceFeeder;
  for (int i = 0; i < 2; ++i) std::thread(launch_for_ever).detach();
  wait_for(std::chrono::milliseconds(250));
  std::printf("%s\n", g_launches.load() > 10 ? "launched" : "launched too little");
  std::fflush(stdout);
  if (how == "return") return 2;
  if (how == "exit") std::exit(3);
  if (how == "_exit") _exit(4);
  if (how == "quick_exit") std::quick_exit(5);
  if (how == "exit_group") syscall(SYS_exit_group, 9);
  end_by_threads(how);
  if (how == "term") end_by_signal(SIGTERM);
  if (how == "int") end_by_signal(SIGINT);
  if (how == "kill") end_by_signal(SIGKILL);
  if (how == "alarm") {
    alarm(1);
    pause();
  }
  if (how == "handler_exit") end_by_handler([](int) { std::exit(13); });
  if (how == "handler__exit") end_by_handler([](int) { _exit(14); });
  if (how == "terminate") throw std::runtime_error("nobody catches this");
  end_by_handlers_of_exit(how);
}
