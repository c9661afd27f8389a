// SPDX-License-Identifier: Apache-2.0
//
// Keeps a device waiting in one known way per run, for the tests of samples: between two launches
// the feeding thread waits or runs for some time in a function that is named after it.
//   sampler_program WHAT STEPS MILLISECONDS
// Prints what any observer must leave unchanged.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

namespace {

using Milliseconds = std::chrono::milliseconds;

void check(bool is_good, const char* what) {
  if (is_good) return;
  std::perror(what);
  std::exit(9);
}

class Device {
 public:
  Device() {
    check(cudaSetDevice(0) == 0, "cudaSetDevice");
    CUmodule module = nullptr;
    check(cuModuleLoadData(&module, "simgpu-any-name") == 0, "cuModuleLoadData");
    check(cuModuleGetFunction(&kernel_, module, "step_kernel") == 0, "cuModuleGetFunction");
  }
  void launch() {
    check(cuLaunchKernel(kernel_, 8, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr) == 0,
          "cuLaunchKernel");
  }
  void finish() { check(cudaDeviceSynchronize() == 0, "cudaDeviceSynchronize"); }

 private:
  CUfunction kernel_ = nullptr;
};

// Another thread that ends the wait after the time given.
class Waker {
 public:
  template <typename Wake>
  Waker(Milliseconds after, Wake wake)
      : thread_([=] {
          std::this_thread::sleep_for(after);
          wake();
        }) {}
  ~Waker() { thread_.join(); }

 private:
  std::thread thread_;
};

void write_byte(int fd) { check(write(fd, "x", 1) == 1, "write"); }
void read_byte(int fd) {
  char byte = 0;
  check(read(fd, &byte, 1) == 1, "read");
}

__attribute__((noinline)) void wait_in_pipe(Milliseconds time) {
  int ends[2];
  check(pipe(ends) == 0, "pipe");
  {
    Waker waker(time, [&] { write_byte(ends[1]); });
    read_byte(ends[0]);
  }
  close(ends[0]);
  close(ends[1]);
}

__attribute__((noinline)) void wait_in_socket(Milliseconds time) {
  int ends[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  {
    Waker waker(time, [&] { write_byte(ends[1]); });
    read_byte(ends[0]);
  }
  close(ends[0]);
  close(ends[1]);
}

__attribute__((noinline)) void wait_in_poll(Milliseconds time) {
  int ends[2];
  check(pipe(ends) == 0, "pipe");
  {
    Waker waker(time, [&] { write_byte(ends[1]); });
    pollfd polled{ends[0], POLLIN, 0};
    check(poll(&polled, 1, -1) == 1, "poll");
  }
  close(ends[0]);
  close(ends[1]);
}

__attribute__((noinline)) void wait_in_epoll(Milliseconds time) {
  int ends[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  const int watcher = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  check(epoll_ctl(watcher, EPOLL_CTL_ADD, ends[0], &event) == 0, "epoll_ctl");
  {
    Waker waker(time, [&] { write_byte(ends[1]); });
    check(epoll_wait(watcher, &event, 1, -1) == 1, "epoll_wait");
  }
  for (const int fd : {ends[0], ends[1], watcher}) close(fd);
}

__attribute__((noinline)) void wait_in_lock(Milliseconds time) {
  std::mutex mutex;
  std::atomic<bool> is_held{false};
  std::thread holder([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    is_held = true;
    std::this_thread::sleep_for(time);
  });
  while (!is_held) std::this_thread::yield();
  mutex.lock();
  mutex.unlock();
  holder.join();
}

// A lock on a file stands for slow input and output: it can be made to last.
__attribute__((noinline)) void wait_in_file(Milliseconds time) {
  char path[] = "sampler_file_XXXXXX";
  const int holder = mkstemp(path);
  const int waiter = open(path, O_RDWR | O_CLOEXEC);
  check(holder >= 0 && waiter >= 0, path);
  check(flock(holder, LOCK_EX) == 0, "flock");
  {
    Waker waker(time, [&] { flock(holder, LOCK_UN); });
    check(flock(waiter, LOCK_EX) == 0, "flock");
  }
  close(holder);
  close(waiter);
  unlink(path);
}

__attribute__((noinline)) void wait_in_sleep(Milliseconds time) {
  std::this_thread::sleep_for(time);
}

__attribute__((noinline)) void wait_in_child(Milliseconds time) {
  const pid_t child = fork();
  if (child == 0) {
    usleep(static_cast<useconds_t>(time.count()) * 1000);
    _exit(0);
  }
  int status = 0;
  check(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

volatile unsigned g_sum = 0;
__attribute__((noinline)) void run_in_loop(Milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    for (unsigned i = 0; i < 1000; ++i) g_sum = g_sum + i;
  }
}

std::atomic<unsigned> g_urgent{0};
void use_urgent_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) { ++g_urgent; };
  check(sigaction(SIGURG, &action, nullptr) == 0, "sigaction");
}

// What a program that waits for its signals itself does.
void block_urgent_signal() {
  sigset_t urgent;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  check(pthread_sigmask(SIG_BLOCK, &urgent, nullptr) == 0, "pthread_sigmask");
}
bool is_urgent_signal_pending() {
  sigset_t pending;
  check(sigpending(&pending) == 0, "sigpending");
  return sigismember(&pending, SIGURG) == 1;
}

sigjmp_buf g_after_fault;
// A program that lives with faults: its handler, on its own stack, jumps out.
void run_with_faults(Milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  unsigned faults = 0;
  while (std::chrono::steady_clock::now() < end) {
    if (sigsetjmp(g_after_fault, 1) == 0) {
      *reinterpret_cast<volatile int*>(8) = 1;
    } else {
      ++faults;
    }
  }
  check(faults > 0, "faults");
}

void prepare_faults() {
  static char stack[64 * 1024];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  check(sigaltstack(&alternate, nullptr) == 0, "sigaltstack");
  struct sigaction action {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) { siglongjmp(g_after_fault, 1); };
  check(sigaction(SIGSEGV, &action, nullptr) == 0, "sigaction");
}

// Holds the loader's lock nearly always.
void run_in_loader(Milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    dl_iterate_phdr([](dl_phdr_info*, std::size_t, void*) { return 0; }, nullptr);
  }
}

// Maps, relocates and unmaps a library over and over.
void run_in_dlopen(Milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    void* const library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr && dlclose(library) == 0, "dlopen");
  }
}

using Away = void (*)(Milliseconds);
Away find_away(const std::string& what) {
  static constexpr struct {
    const char* name;
    Away function;
  } kAways[] = {
      {"pipe", wait_in_pipe},      {"socket", wait_in_socket}, {"poll", wait_in_poll},
      {"epoll", wait_in_epoll},    {"lock", wait_in_lock},     {"file", wait_in_file},
      {"sleep", wait_in_sleep},    {"child", wait_in_child},   {"loop", run_in_loop},
      {"blocked", run_in_loop},    {"urgent", run_in_loop},    {"urgent_late", run_in_loop},
      {"faults", run_with_faults}, {"loader", run_in_loader},  {"dlopen", run_in_dlopen}};
  for (const auto& away : kAways) {
    if (what == away.name) return away.function;
  }
  std::fprintf(stderr, "sampler_program: %s is not known\n", what.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: sampler_program WHAT STEPS MILLISECONDS\n");
    return 2;
  }
  const std::string what = argv[1];
  const int steps = std::atoi(argv[2]);
  const Away away = find_away(what);
  if (what == "urgent") use_urgent_signal();
  if (what == "blocked") block_urgent_signal();
  if (what == "faults") prepare_faults();
  Device device;
  for (int i = 0; i < steps; ++i) {
    device.launch();
    if (what == "urgent_late" && i == steps / 2) use_urgent_signal();
    away(Milliseconds(std::atoi(argv[3])));
    if (is_urgent_signal_pending()) ++g_urgent;
  }
  device.finish();
  std::printf("%s: %d steps, %u urgent signals\n", what.c_str(), steps, g_urgent.load());
  return 0;
}
