// SPDX-License-Identifier: Apache-2.0
//
// CallStack from outside of its library: what it leaves out, when it asks libunwind, how it gets on
// with threads, and that it takes nothing from the heap.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <thread>

#include "tests/process/stack_probe.h"

namespace {

// Calls into the allocator by this thread while it counts.
thread_local bool t_is_counting = false;
thread_local int t_allocations = 0;

extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* __libc_calloc(std::size_t count, std::size_t size);
extern "C" void* __libc_realloc(void* memory, std::size_t size);

}  // namespace

extern "C" void* malloc(std::size_t size) {
  if (t_is_counting) ++t_allocations;
  return __libc_malloc(size);
}
extern "C" void* calloc(std::size_t count, std::size_t size) {
  if (t_is_counting) ++t_allocations;
  return __libc_calloc(count, size);
}
extern "C" void* realloc(void* memory, std::size_t size) {
  if (t_is_counting) ++t_allocations;
  return __libc_realloc(memory, size);
}

namespace {

struct Stack {
  void* addresses[128];
  unsigned long frame_addresses[128];
  int count = 0;
  int is_truncated = 0;
};
Stack g_stack;

}  // namespace

extern "C" __attribute__((noinline, used)) void stack_test_capture() {
  g_stack.count =
      stack_probe_capture(g_stack.addresses, g_stack.frame_addresses, 128, &g_stack.is_truncated);
  asm volatile("" ::: "memory");
}
extern "C" void stack_test_no_table();
extern "C" void stack_test_odd_rule();
// One function without unwind information, and one with an expression that no compiler writes and
// that libunwind evaluates.
asm(R"(
  .text
  .type stack_test_no_table, @function
stack_test_no_table:
  subq $8, %rsp
  call stack_test_capture
  addq $8, %rsp
  ret
  .size stack_test_no_table, . - stack_test_no_table

  .type stack_test_odd_rule, @function
stack_test_odd_rule:
  .cfi_startproc
  subq $8, %rsp
  .cfi_escape 0x0f, 0x04, 0x77, 0x10, 0x30, 0x22
  call stack_test_capture
  addq $8, %rsp
  .cfi_def_cfa 7, 8
  ret
  .cfi_endproc
  .size stack_test_odd_rule, . - stack_test_odd_rule
)");

namespace {

bool is_in(void* address, const void* function) {
  const auto* at = static_cast<const char*>(address);
  const auto* begin = static_cast<const char*>(function);
  return at > begin && at < begin + 300;
}

}  // namespace

TEST_CASE("a stack begins at the caller of the library", "[stacks]") {
  REQUIRE(stack_probe_prepare() == 1);
  stack_test_capture();
  REQUIRE(g_stack.count > 3);
  CHECK(g_stack.is_truncated == 0);
  CHECK(is_in(g_stack.addresses[0], reinterpret_cast<const void*>(&stack_test_capture)));
  for (int i = 1; i < g_stack.count; ++i) {
    CHECK(g_stack.frame_addresses[i] > g_stack.frame_addresses[i - 1]);
  }
}

TEST_CASE("a stack that cannot be finished says so and is counted", "[stacks]") {
  REQUIRE(stack_probe_prepare() == 1);
  const unsigned long stopped = stack_probe_stopped_without_table();
  stack_test_no_table();
  CHECK(g_stack.is_truncated == 1);
  CHECK(g_stack.count == 2);
  CHECK(stack_probe_stopped_without_table() == stopped + 1);
}

TEST_CASE("a stack that is longer than asked for says so and is counted", "[stacks]") {
  REQUIRE(stack_probe_prepare() == 1);
  const unsigned long cut = stack_probe_cut();
  void* address = nullptr;
  unsigned long frame_address = 0;
  int is_truncated = 0;
  CHECK(stack_probe_capture(&address, &frame_address, 1, &is_truncated) == 1);
  CHECK(is_truncated == 1);
  CHECK(stack_probe_cut() == cut + 1);
}

TEST_CASE("libunwind takes over where a rule is not understood", "[stacks]") {
  REQUIRE(stack_probe_prepare() == 1);
  stack_test_capture();
  const int around = g_stack.count;
  stack_test_odd_rule();
  CHECK(g_stack.is_truncated == 0);
  CHECK(g_stack.count == around + 1);
  CHECK(g_stack.frame_addresses[2] > g_stack.frame_addresses[1]);
}

TEST_CASE("a capture takes nothing from the heap, nor does a thread's first", "[stacks]") {
  REQUIRE(stack_probe_prepare() == 1);
  int allocations = -1;
  int count = 0;
  std::thread([&] {
    t_is_counting = true;
    stack_test_capture();
    stack_test_capture();
    t_is_counting = false;
    allocations = t_allocations;
    count = g_stack.count;
  }).join();
  CHECK(count > 2);
  CHECK(allocations == 0);
}

TEST_CASE("threads that have ended make room for others", "[stacks]") {
  REQUIRE(stack_probe_prepare() == 1);
  for (int i = 0; i < 200; ++i) {
    int count = 0;
    std::thread([&] {
      stack_test_capture();
      count = g_stack.count;
    }).join();
    REQUIRE(count > 2);
    stack_probe_refresh();
  }
}

namespace {

void* g_interrupted[128];
int g_interrupted_count = -1;
void on_signal(int, siginfo_t*, void* context) {
  g_interrupted_count = stack_probe_capture_interrupted(context, g_interrupted, 128);
}

}  // namespace

TEST_CASE("an interrupted thread's stack is taken once it is known", "[stacks]") {
  REQUIRE(stack_probe_prepare() == 1);
  struct sigaction action = {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO;
  REQUIRE(sigaction(SIGURG, &action, nullptr) == 0);
  int before = -1;
  int after = -1;
  std::thread([&] {
    raise(SIGURG);
    before = g_interrupted_count;
    stack_test_capture();
    raise(SIGURG);
    after = g_interrupted_count;
  }).join();
  CHECK(before == 0);
  CHECK(after > 3);
}

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
