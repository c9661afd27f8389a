// SPDX-License-Identifier: Apache-2.0
//
// What a native stack costs: StackWalker from end to end and incrementally, next to libunwind and
// the C library's backtrace(), on stacks of 10, 30 and 60 frames without frame pointers. The call
// that takes the stack moves between two places, as a program's launches do.
#include <benchmark/benchmark.h>
#include <execinfo.h>
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>

#include <cstdio>

#include "libgpuidle/stacks/native_stepper.h"
#include "libgpuidle/stacks/unwind_tables.h"

namespace {

using gpuidle::stacks::NativeFrame;
using gpuidle::stacks::StackWalker;

using Capture = int (*)();

// Opened, not linked: libunwind has a backtrace() of its own that would take the C library's place.
decltype(&unw_backtrace) g_unw_backtrace = nullptr;
decltype(&unw_init_local) g_unw_init_local = nullptr;
decltype(&unw_step) g_unw_step = nullptr;
decltype(&unw_get_reg) g_unw_get_reg = nullptr;
int (*g_unw_getcontext)(unw_context_t*) = nullptr;

bool open_libunwind() {
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto find = [library](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    return *function != nullptr;
  };
  return find(&g_unw_backtrace, "unw_backtrace") &&
         find(&g_unw_init_local, "_ULx86_64_init_local") && find(&g_unw_step, "_ULx86_64_step") &&
         find(&g_unw_get_reg, "_ULx86_64_get_reg") &&
         find(&g_unw_getcontext, "_Ux86_64_getcontext");
}

StackWalker* g_walker = nullptr;
NativeFrame g_frames[StackWalker::kMaxFrames];
void* g_addresses[StackWalker::kMaxFrames];

__attribute__((noinline)) int by_walker() {
  return g_walker->walk(gpuidle::stacks::capture_registers(), g_frames, StackWalker::kMaxFrames)
      .count;
}
__attribute__((noinline)) int by_unw_backtrace() {
  return g_unw_backtrace(g_addresses, StackWalker::kMaxFrames);
}
__attribute__((noinline)) int by_unw_step() {
  unw_context_t context;
  unw_cursor_t cursor;
  g_unw_getcontext(&context);
  g_unw_init_local(&cursor, &context);
  int count = 1;
  while (count < StackWalker::kMaxFrames && g_unw_step(&cursor) > 0) {
    unw_word_t ip = 0;
    g_unw_get_reg(&cursor, UNW_REG_IP, &ip);
    g_addresses[count++] = reinterpret_cast<void*>(ip);
  }
  return count;
}
__attribute__((noinline)) int by_backtrace() {
  return backtrace(g_addresses, StackWalker::kMaxFrames);
}
__attribute__((noinline)) int by_nothing() { return 0; }

struct Run {
  benchmark::State& state;
  Capture capture;
  int frames;
};

__attribute__((noinline)) int first_place(Capture capture) { return capture() + 1; }
__attribute__((noinline)) int second_place(Capture capture) { return capture() + 2; }

__attribute__((noinline, noclone)) int descend(Run& run, int depth) {
  volatile int sum = depth;  // keeps the frame, and the call from becoming a jump
  if (depth > 0) {
    sum = sum + descend(run, depth - 1);
  } else {
    run.frames = run.capture();
    for (auto _ : run.state) {
      sum = sum + first_place(run.capture) + second_place(run.capture);
    }
  }
  return sum;
}

void measure(benchmark::State& state, Capture capture) {
  Run run{state, capture, 0};
  // The frames around the recursion: main, the benchmark's own, the capture.
  constexpr int kAround = 12;
  benchmark::DoNotOptimize(descend(run, static_cast<int>(state.range(0)) - kAround));
  state.counters["frames"] = run.frames;
  state.counters["time_per_stack"] =
      benchmark::Counter(2 * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_full_walk(benchmark::State& state) {
  g_walker->set_incremental(false);
  measure(state, &by_walker);
}
void BM_incremental_walk(benchmark::State& state) {
  g_walker->set_incremental(true);
  measure(state, &by_walker);
}
void BM_unw_backtrace(benchmark::State& state) { measure(state, &by_unw_backtrace); }
void BM_unw_step(benchmark::State& state) { measure(state, &by_unw_step); }
void BM_glibc_backtrace(benchmark::State& state) { measure(state, &by_backtrace); }
void BM_calls_alone(benchmark::State& state) { measure(state, &by_nothing); }

#define GPUIDLE_DEPTHS Arg(12)->Arg(30)->Arg(60)
BENCHMARK(BM_calls_alone)->Arg(30);
BENCHMARK(BM_full_walk)->GPUIDLE_DEPTHS;
BENCHMARK(BM_incremental_walk)->GPUIDLE_DEPTHS;
BENCHMARK(BM_unw_backtrace)->GPUIDLE_DEPTHS;
BENCHMARK(BM_unw_step)->GPUIDLE_DEPTHS;
BENCHMARK(BM_glibc_backtrace)->GPUIDLE_DEPTHS;

}  // namespace

int main(int argc, char** argv) {
  gpuidle::stacks::UnwindTables::prepare();
  g_walker = StackWalker::map_new();
  if (g_walker == nullptr || !open_libunwind()) {
    std::fputs("stack_bench: no memory, or libunwind.so.8 cannot be opened\n", stderr);
    return 1;
  }
  g_walker->set_bounds(gpuidle::stacks::find_stack_bounds());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
