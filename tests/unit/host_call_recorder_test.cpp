// SPDX-License-Identifier: Apache-2.0
//
// What hooks leave behind, on real threads. ThreadSanitizer repeats these.
#include "libgpuidle/record/host_call_recorder.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "libgpuidle/record/gate.h"

namespace gpuidle::record {
namespace {

constexpr std::int64_t kThreshold_ns = 1'000'000'000'000;  // only a thread's first call is "away"

// The stack that the next capture finds.
thread_local int t_fake_depth = 3;
int fake_capture(std::uint64_t* words, int max_words, bool* is_truncated) {
  *is_truncated = t_fake_depth > max_words;
  const int count = t_fake_depth < max_words ? t_fake_depth : max_words;
  for (int i = 0; i < count; ++i) words[i] = std::uint64_t{0x1000} + static_cast<unsigned>(i);
  return count;
}

HostCallRecorder& recorder() {
  static const bool is_ready = [] {
    RecorderOptions options;
    options.ring_bytes = 64 * 1024;
    options.stack_depth = 16;
    options.gap_threshold_ns = kThreshold_ns;
    options.capture_stack = &fake_capture;
    return g_gate.place_on_wiped_page() && g_recorder.prepare(options);
  }();
  // Asserted by hand: threads call this too, and Catch's own assertions are for one thread.
  if (!is_ready) std::abort();
  return g_recorder;
}

ThreadState& thread_at(int index) {
  ThreadState* const state = recorder().thread(index);
  if (state == nullptr) std::abort();
  return *state;
}

struct Drained {
  std::vector<CallRecord> calls;
  int stacks = 0;
  std::vector<std::string> markers;
};

// Everything in the rings of all threads.
Drained drain() {
  Drained out;
  for (int i = 0; i < kMaxThreads; ++i) {
    ThreadState& state = thread_at(i);
    if (state.state.load() != ThreadState::live) continue;
    std::vector<Slot> slots(state.ring.readable());
    state.ring.peek(0, slots.size(), slots.data());
    for (std::size_t at = 0; at < slots.size();) {
      CallRecord record;
      std::memcpy(static_cast<void*>(&record), &slots[at], sizeof(record));
      if (record.head.kind == RecordKind::call) out.calls.push_back(record);
      if (record.head.kind == RecordKind::stack) ++out.stacks;
      if (record.head.kind == RecordKind::marker) {
        out.markers.emplace_back(reinterpret_cast<const char*>(&slots[at + 1]), record.head.stack);
      }
      at += record.head.slots;
    }
    state.ring.release(slots.size());
  }
  return out;
}

// Runs `body` on a thread of its own, whose first call is therefore "away for long".
template <typename Body>
void on_new_thread(Body body) {
  std::thread(body).join();
  recorder().reclaim_dead_threads();
}

struct OpenGate {
  OpenGate() {
    recorder();
    static std::uint32_t epoch = 0;
    g_gate.open(++epoch);
  }
  ~OpenGate() {
    g_gate.close();
    drain();
    recorder().reclaim_dead_threads();
  }
};

}  // namespace

TEST_CASE("with the gate closed a hook leaves nothing", "[record][unit]") {
  recorder();
  drain();
  recorder().enter(1, model::ApiRole::launch, 7);
  recorder().exit(0);
  CHECK(drain().calls.empty());
}

TEST_CASE("of nested calls only the outermost is recorded", "[record][unit]") {
  OpenGate gate;
  recorder().enter(3, model::ApiRole::launch, 11);
  recorder().enter(4, model::ApiRole::launch, 12);
  recorder().exit(1);
  recorder().exit(2);
  const Drained drained = drain();
  REQUIRE(drained.calls.size() == 1);
  CHECK(drained.calls[0].head.value == 3);
  CHECK(drained.calls[0].correlation == 11);
  CHECK(drained.calls[0].result == 2);
  CHECK(drained.calls[0].enter_ticks <= drained.calls[0].exit_ticks);
}

TEST_CASE("a stack is taken at a thread's first call and at blocking calls, and defined once",
          "[record][unit]") {
  OpenGate gate;
  on_new_thread([] {
    for (int i = 0; i < 3; ++i) {
      recorder().enter(1, model::ApiRole::launch, 1);
      recorder().exit(0);
    }
    recorder().enter(2, model::ApiRole::sync_blocking, 2);
    recorder().exit(0);
  });
  // The thread has ended, but its ring still holds records and is not given away.
  const Drained drained = drain();
  REQUIRE(drained.calls.size() == 4);
  CHECK(drained.calls[0].head.stack != 0);
  CHECK(drained.calls[1].head.stack == 0);
  CHECK(drained.calls[2].head.stack == 0);
  CHECK(drained.calls[3].head.stack == drained.calls[0].head.stack);
  CHECK(drained.stacks == 1);
}

TEST_CASE("an exit without its enter is ignored", "[record][unit]") {
  OpenGate gate;
  on_new_thread([] {
    recorder().exit(0);
    recorder().enter(1, model::ApiRole::launch, 5);
    recorder().exit(0);
    recorder().exit(0);
  });
  CHECK(drain().calls.size() == 1);
}

TEST_CASE("nesting left over from before a stop does not silence a thread", "[record][unit]") {
  {
    OpenGate gate;
    recorder().enter(1, model::ApiRole::launch, 5);  // its exit falls into the closed gate
  }
  recorder().exit(0);
  OpenGate gate;
  recorder().enter(2, model::ApiRole::launch, 6);
  recorder().exit(0);
  const Drained drained = drain();
  REQUIRE(drained.calls.size() == 1);
  CHECK(drained.calls[0].correlation == 6);
}

TEST_CASE("stacks deeper than kept are cut and counted", "[record][unit]") {
  OpenGate gate;
  std::uint64_t truncated = 0;
  on_new_thread([&] {
    t_fake_depth = 40;
    recorder().enter(1, model::ApiRole::launch, 1);
    recorder().exit(0);
  });
  for (int i = 0; i < kMaxThreads; ++i) {
    const ThreadState& state = thread_at(i);
    truncated += state.stacks_truncated.load();
  }
  CHECK(truncated == 1);
}

TEST_CASE("rings of ended threads are given to new ones", "[record][unit]") {
  OpenGate gate;
  std::uint64_t calls = 0;
  for (int i = 0; i < 3 * kMaxThreads; ++i) {
    on_new_thread([] {
      recorder().enter(1, model::ApiRole::launch, 1);
      recorder().exit(0);
    });
    calls += drain().calls.size();
    recorder().reclaim_dead_threads();
  }
  CHECK(calls == 3 * kMaxThreads);
  CHECK(recorder().unregistered_calls() == 0);
}

TEST_CASE("marks carry their name, cut to what fits", "[record][unit]") {
  OpenGate gate;
  recorder().mark(model::Marker::Kind::step, "epoch 1", 10, 20);
  recorder().mark(model::Marker::Kind::instant, std::string(500, 'x').c_str(), 10, 10);
  recorder().mark(model::Marker::Kind::instant, nullptr, 10, 10);
  const Drained drained = drain();
  REQUIRE(drained.markers.size() == 3);
  CHECK(drained.markers[0] == "epoch 1");
  CHECK(drained.markers[1] == std::string(kMaxMarkerBytes, 'x'));
  CHECK(drained.markers[2].empty());
}

TEST_CASE("a forked child finds the gate closed and leaves its parent's rings alone",
          "[record][unit]") {
  OpenGate gate;
  recorder().enter(1, model::ApiRole::launch, 1);
  recorder().exit(0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool is_closed = g_gate.epoch() == 0;
    recorder().enter(1, model::ApiRole::launch, 2);
    recorder().exit(0);
    _exit(is_closed ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(drain().calls.size() == 1);
}

TEST_CASE("many threads at once lose nothing while the drain keeps up", "[record][unit]") {
  OpenGate gate;
  constexpr int kThreads = 8;
  constexpr int kCalls = 5'000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        recorder().enter(1, model::ApiRole::launch, 1);
        recorder().exit(0);
        if (call % 256 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      --running;
    });
  }
  std::size_t calls = 0;
  while (running.load() != 0) calls += drain().calls.size();
  for (std::thread& thread : threads) thread.join();
  calls += drain().calls.size();
  std::uint64_t dropped = 0;
  for (int i = 0; i < kMaxThreads; ++i) {
    const ThreadState& state = thread_at(i);
    dropped += state.ring.dropped();
  }
  CHECK(calls + dropped == std::size_t{kThreads} * kCalls);
}

TEST_CASE("a thread is away from when it leaves its outermost call", "[recorder]") {
  OpenGate gate;
  std::vector<std::int64_t> away_ticks;
  std::int64_t last_exit_ticks = 0;
  on_new_thread([&] {
    recorder().enter(1, model::ApiRole::launch, 1);
    const auto own_tid = static_cast<std::uint32_t>(syscall(SYS_gettid));
    int own = 0;
    while (thread_at(own).state.load() != ThreadState::live || thread_at(own).tid != own_tid) ++own;
    const auto note = [&] { away_ticks.push_back(thread_at(own).away_since_ticks.load()); };
    note();
    recorder().enter(2, model::ApiRole::launch, 2);
    recorder().exit(0);
    note();  // the outer call goes on
    recorder().exit(0);
    note();
    last_exit_ticks = thread_at(own).last_exit_ticks;
    recorder().enter(1, model::ApiRole::launch, 3);
    note();
    recorder().exit(0);
  });
  CHECK(last_exit_ticks != 0);
  CHECK(away_ticks == std::vector<std::int64_t>{0, 0, last_exit_ticks, 0});
}

}  // namespace gpuidle::record
