// SPDX-License-Identifier: Apache-2.0
//
// The native stepper in signal handlers: at any instruction its stack is libgcc's, and it never
// waits for a lock that the interrupted code holds.
#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>

#include "libgpuidle/stacks/native_stepper.h"
#include "libgpuidle/stacks/unwind_tables.h"
#include "tests/unit/native_stepper_oracles.h"
#include "tests/unit/native_stepper_shapes.h"

using namespace gpuidle::stacks;
using namespace gpuidle::test;

namespace {

// What the handler works on and counts. The walker is also used outside of it, and interrupted.
struct Sampling {
  StackWalker* walker = nullptr;
  bool has_oracle = false;
  std::atomic<int> samples{0};
  std::atomic<int> complete{0};
  std::atomic<int> different{0};
  std::atomic<int> shorter{0};
  std::atomic<int> longer{0};
  std::atomic<int> other_frame_addresses{0};
};
Sampling* g_sampling = nullptr;
// Of the test that is sampled by a timer: armed for one signal at a time, because a handler that
// takes longer than the interval would leave no time for anything else.
timer_t g_timer{};
bool g_has_timer = false;

void arm_timer() {
  const itimerspec once = {{0, 0}, {0, 41'000}};
  timer_settime(g_timer, 0, &once, nullptr);
}
NativeFrame g_frames[StackWalker::kMaxFrames];
OracleStack g_oracle;

void compare(const WalkResult& result, std::uintptr_t interrupted, Sampling& sampling) {
  int first = 0;  // the handler's own frames and the kernel's
  while (first < g_oracle.count && g_oracle.address(first) != interrupted) ++first;
  const int count = g_oracle.count - first;
  bool is_different = false;
  bool has_other_addresses = false;
  for (int i = 0; i < result.count && i < count; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(g_frames[i].return_address);
    if (address != g_oracle.address(first + i)) is_different = true;
    if (i + 1 < count && i + 1 < result.count &&
        g_frames[i].frame_address != g_oracle.stack_pointer(first + i + 1)) {
      has_other_addresses = true;
    }
  }
  if (is_different) ++sampling.different;
  if (has_other_addresses) ++sampling.other_frame_addresses;
  if (result.count < count && result.end != StackEnd::too_deep) ++sampling.shorter;
  if (result.count > count) ++sampling.longer;
}

void on_sample(int, siginfo_t*, void* context) {
  const int saved_errno = errno;
  Sampling& sampling = *g_sampling;
  const Registers start = registers_of(context);
  const WalkResult result = sampling.walker->walk(start, g_frames, StackWalker::kMaxFrames);
  if (result.end == StackEnd::complete) ++sampling.complete;
  if (sampling.has_oracle) {
    walk_with_libgcc(&g_oracle);
    compare(result, start.values[kRip], sampling);
  }
  ++sampling.samples;
  if (g_has_timer) arm_timer();
  errno = saved_errno;
}

void handle_samples(Sampling* sampling) {
  g_sampling = sampling;
  struct sigaction action = {};
  action.sa_sigaction = &on_sample;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  REQUIRE(sigaction(SIGURG, &action, nullptr) == 0);
}

// Signals to the calling thread, one soon after the other.
class Ticker {
 public:
  Ticker() {
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGURG;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &g_timer) == 0);
    g_has_timer = true;
    arm_timer();
  }
  ~Ticker() {
    g_has_timer = false;
    timer_delete(g_timer);
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
};

StackWalker* walker_of_this_thread() {
  UnwindTables::prepare();
  StackWalker* const walker = StackWalker::map_new();
  REQUIRE(walker != nullptr);
  walker->set_bounds(find_stack_bounds());
  return walker;
}

// Work of the C library at the innermost frame, and now and then a walk that may be interrupted.
class Work : public StackVisitor {
 public:
  explicit Work(StackWalker* walker) : walker_(walker) {}
  void visit() override {
    ++visits_;
    std::memcpy(to_, from_, 1 + visits_ % sizeof(to_));
    void* memory = std::malloc(10 + visits_ % 3000);
    asm volatile("" : : "r"(memory) : "memory");
    std::free(memory);
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    char text[60];
    std::snprintf(text, sizeof(text), "%zu %g", visits_, static_cast<double>(visits_) * 1.1);
    asm volatile("" : : "r"(text) : "memory");
    if (visits_ % 8 == 0) syscall(SYS_gettid);
    if (walker_ != nullptr) walk();
  }

 private:
  void walk() {
    NativeFrame frames[StackWalker::kMaxFrames];
    walker_->walk(capture_registers(), frames, StackWalker::kMaxFrames);
  }
  StackWalker* walker_;
  std::size_t visits_ = 0;
  char from_[4096] = {};
  char to_[4096] = {};
};

#ifdef __SANITIZE_ADDRESS__
constexpr int kSamples = 2'000;  // each takes milliseconds
#else
constexpr int kSamples = 12'000;
#endif
using Clock = std::chrono::steady_clock;
const auto kPatience = std::chrono::seconds(100);

// Samples the calling thread while it works, until there are kSamples of them.
void sample_work(Sampling& sampling, Work& work, bool with_exceptions) {
  handle_samples(&sampling);
  const Ticker ticker;
  const auto give_up = Clock::now() + kPatience;
  for (std::uint64_t number = 1; sampling.samples < kSamples; ++number) {
    StackSeed seed(number);
    const auto depth = static_cast<int>(seed.below(20));
    if (with_exceptions) {
      descend(seed, depth, work);
    } else {
      descend_quickly(seed, depth, work);
    }
    if (Clock::now() > give_up) FAIL("too few samples: " << sampling.samples);
  }
}

}  // namespace

TEST_CASE("at any instruction the stack is the one that libgcc sees", "[stacks]") {
  OracleStack warm_up;
  walk_with_libgcc(&warm_up);
  Sampling sampling;
  sampling.walker = walker_of_this_thread();
  sampling.has_oracle = true;
  Work work(nullptr);
  sample_work(sampling, work, false);
  CHECK(sampling.different == 0);
  CHECK(sampling.other_frame_addresses == 0);
  CHECK(sampling.longer == 0);
  // The loader's and the vector routines' own assembly may be beyond the rules.
  CHECK(sampling.shorter <= kSamples / 1000);
  StackWalker::unmap(sampling.walker);
}

TEST_CASE("a walk that interrupts a walk of the same thread is right", "[stacks]") {
  OracleStack warm_up;
  walk_with_libgcc(&warm_up);
  Sampling sampling;
  sampling.walker = walker_of_this_thread();
  sampling.has_oracle = true;
  Work work(sampling.walker);
  sample_work(sampling, work, false);
  CHECK(sampling.different == 0);
  CHECK(sampling.other_frame_addresses == 0);
  CHECK(sampling.shorter <= kSamples / 1000);
  StackWalker::unmap(sampling.walker);
}

TEST_CASE("samples while an exception lands do no harm", "[stacks]") {
  // libgcc writes over its own frame then, and cannot be asked itself.
  Sampling sampling;
  sampling.walker = walker_of_this_thread();
  Work work(sampling.walker);
  sample_work(sampling, work, true);
  CHECK(sampling.complete > kSamples * 9 / 10);
  StackWalker::unmap(sampling.walker);
}

namespace {

int see_object(dl_phdr_info*, std::size_t, void*) { return 0; }

// A thread that calls `step` over and over is sampled; each sample has to come back.
template <typename Step>
void sample_thread(Step step) {
  Sampling sampling;
  std::atomic<int> tid{0};
  std::atomic<bool> is_over{false};
  std::atomic<long> steps{0};
  std::thread thread([&] {
    sampling.walker = walker_of_this_thread();
    tid = static_cast<int>(syscall(SYS_gettid));
    while (!is_over) {
      step();
      ++steps;
    }
  });
  while (tid == 0) std::this_thread::yield();
  handle_samples(&sampling);
  bool hangs = false;
  for (int i = 1; i <= 1500 && !hangs; ++i) {
    syscall(SYS_tgkill, getpid(), tid.load(), SIGURG);
    const auto give_up = Clock::now() + std::chrono::seconds(20);
    while (sampling.samples < i && !hangs) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      hangs = Clock::now() > give_up;
    }
  }
  const long steps_before = steps;
  const auto give_up = Clock::now() + std::chrono::seconds(20);
  while (!hangs && steps < steps_before + 2) hangs = Clock::now() > give_up;
  if (hangs) {  // the thread cannot be joined
    std::fputs("the sampled thread hangs\n", stderr);
    _exit(1);
  }
  is_over = true;
  thread.join();
  // The C runtime's own _init and the like have no unwind information.
  CHECK(sampling.complete > 1000);
  StackWalker::unmap(sampling.walker);
}

}  // namespace

TEST_CASE("a thread in dl_iterate_phdr can be sampled", "[stacks]") {
  sample_thread([] { dl_iterate_phdr(&see_object, nullptr); });
}

TEST_CASE("a thread in dlopen and dlclose can be sampled", "[stacks]") {
  sample_thread([] {
    void* library = dlopen(STACK_RELOAD_A, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) dlclose(library);
  });
}
