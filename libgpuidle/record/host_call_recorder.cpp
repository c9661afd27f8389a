// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/record/host_call_recorder.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "libgpuidle/record/gate.h"

namespace gpuidle::record {
namespace {

// Initial-exec: one load, and no allocation at a thread's first access. One pointer only, so that
// the library can also be opened late, when little static TLS is left.
__attribute__((tls_model("initial-exec"))) thread_local ThreadState* t_state = nullptr;

std::uint64_t hash_of(const std::uint64_t* words, int count) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ static_cast<std::uint64_t>(count);
  for (int i = 0; i < count; ++i) {
    hash = (hash ^ words[i]) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash == 0 ? 1 : hash;  // 0 marks an empty cache entry
}

std::size_t round_down_to_power_of_two(std::size_t value) {
  std::size_t power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}

}  // namespace

HostCallRecorder g_recorder;

bool HostCallRecorder::prepare(const RecorderOptions& options) {
  options_ = options;
  gap_threshold_ticks_ = static_cast<std::int64_t>(static_cast<double>(options.gap_threshold_ns) *
                                                   g_host_clock.ticks_per_ns);
  if (options_.stack_depth > kMaxFrames) options_.stack_depth = kMaxFrames;
  if (threads_ != nullptr) {
    discard();
    return true;
  }
  slots_per_ring_ = round_down_to_power_of_two(options.ring_bytes / sizeof(Slot));
  const std::size_t states_bytes = sizeof(ThreadState) * kMaxThreads;
  const std::size_t states_span = (states_bytes + 4095) / 4096 * 4096;
  const std::size_t bytes = states_span + slots_per_ring_ * sizeof(Slot) * kMaxThreads;
  // Shared pages, so that a parent can still read them when this process has been killed. No file
  // behind them: ftruncate() of even a memfd raises SIGXFSZ under a small RLIMIT_FSIZE, and a
  // descriptor of ours would show up in the host's table.
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  slots_ = reinterpret_cast<Slot*>(static_cast<char*>(base) + states_span);
  auto* states = static_cast<ThreadState*>(base);
  for (int i = 0; i < kMaxThreads; ++i) new (&states[i]) ThreadState;
  threads_ = states;
  return true;
}

void HostCallRecorder::discard() {
  for (int i = 0; i < kMaxThreads; ++i) {
    ThreadRing& ring = threads_[i].ring;
    if (threads_[i].state.load(std::memory_order_acquire) == ThreadState::live) {
      ring.release(ring.readable());
    }
  }
}

ThreadState* HostCallRecorder::this_thread() {
  return t_state != nullptr ? t_state : register_thread();
}

ThreadState* HostCallRecorder::register_thread() {
  if (threads_ == nullptr) return nullptr;
  for (int i = 0; i < kMaxThreads; ++i) {
    ThreadState& candidate = threads_[i];
    std::uint32_t expected = ThreadState::free;
    if (!candidate.state.compare_exchange_strong(expected, ThreadState::claimed,
                                                 std::memory_order_acquire)) {
      continue;
    }
    candidate.tid = static_cast<std::uint32_t>(syscall(SYS_gettid));
    candidate.epoch = 0;
    candidate.depth = 0;
    candidate.last_exit_ticks = 0;
    candidate.away_since_ticks.store(0, std::memory_order_relaxed);
    candidate.stack_hashes.fill(0);
    candidate.ring.init(slots_ + static_cast<std::size_t>(i) * slots_per_ring_, slots_per_ring_);
    candidate.state.store(ThreadState::live, std::memory_order_release);
    t_state = &candidate;
    if (i >= kMaxThreads - kCrowdedThreads) say_crowded();
    return t_state;
  }
  say_crowded();
  unregistered_calls_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void HostCallRecorder::say_crowded() {
  if (is_crowded_.exchange(true, std::memory_order_relaxed) || options_.on_crowded == nullptr)
    return;
  options_.on_crowded();
}

bool HostCallRecorder::is_stack_due(ThreadState& thread) const {
  if (options_.stack_every == 0 || ++thread.calls_without_stack < options_.stack_every) {
    return false;
  }
  thread.calls_without_stack = 0;
  return true;
}

void HostCallRecorder::take_stack(ThreadState& thread) {
  std::uint64_t* const words = thread.words.data();
  bool is_truncated = false;
  const int count = options_.capture_stack(words, options_.stack_depth, &is_truncated);
  if (count <= 0) {
    thread.stacks_failed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (is_truncated) thread.stacks_truncated.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t hash = hash_of(words, count);
  const auto entry = static_cast<std::uint16_t>(hash % kStackCacheSize);
  if (thread.stack_hashes[entry] != hash) {
    // The reader replaces its row `entry` when it meets this record; calls that follow in the ring
    // mean the new stack, calls before it the old one.
    CallRecord definition;
    definition.head.kind = RecordKind::stack;
    definition.head.value = entry;
    definition.head.stack = static_cast<std::uint32_t>(count);
    if (!thread.ring.push(definition, words, static_cast<std::size_t>(count) * sizeof(*words))) {
      thread.stack_hashes[entry] = 0;
      return;
    }
    thread.stack_hashes[entry] = hash;
  }
  thread.stack = std::uint32_t{1} + entry;
}

void HostCallRecorder::enter(std::uint16_t api, model::ApiRole role, std::uint32_t correlation) {
  const std::uint32_t epoch = g_gate.epoch();
  if (epoch == 0) return;
  ThreadState* thread = this_thread();
  if (thread == nullptr) return;
  if (thread->epoch != epoch) {
    // First call since start(): forget nesting from before a stop(), and the stacks that were
    // written, which a reader of another recording does not know.
    thread->epoch = epoch;
    thread->depth = 0;
    thread->stack_hashes.fill(0);
  }
  if (thread->depth++ != 0) return;
  thread->api = api;
  thread->correlation = correlation;
  thread->stack = 0;
  const std::int64_t now_ticks = host_ticks();
  thread->enter_ticks = now_ticks;
  thread->away_since_ticks.store(0, std::memory_order_relaxed);
  if (options_.capture_stack != nullptr &&
      (now_ticks - thread->last_exit_ticks > gap_threshold_ticks_ || model::may_block(role) ||
       is_stack_due(*thread))) {
    take_stack(*thread);
  }
}

void HostCallRecorder::exit(std::int32_t result) {
  const std::uint32_t epoch = g_gate.epoch();
  ThreadState* thread = t_state;
  if (epoch == 0 || thread == nullptr || thread->epoch != epoch || thread->depth == 0) return;
  if (--thread->depth != 0) return;
  CallRecord call;
  call.head.kind = RecordKind::call;
  call.head.value = thread->api;
  call.head.stack = thread->stack;
  call.enter_ticks = thread->enter_ticks;
  call.exit_ticks = host_ticks();
  call.correlation = thread->correlation;
  call.result = result;
  thread->last_exit_ticks = call.exit_ticks;
  thread->away_since_ticks.store(call.exit_ticks, std::memory_order_relaxed);
  thread->ring.push(call);
}

void HostCallRecorder::mark(model::Marker::Kind kind, const char* name, std::int64_t start_ns,
                            std::int64_t end_ns) {
  if (g_gate.epoch() == 0) return;
  ThreadState* thread = this_thread();
  if (thread == nullptr) return;
  MarkerRecord marker;
  marker.head.kind = RecordKind::marker;
  marker.head.value = static_cast<std::uint16_t>(kind);
  const std::size_t length = name == nullptr ? 0 : strnlen(name, kMaxMarkerBytes);
  marker.head.stack = static_cast<std::uint32_t>(length);
  marker.start_ns = start_ns;
  marker.end_ns = end_ns;
  thread->ring.push(marker, name, length);
}

void HostCallRecorder::reclaim_dead_threads() {
  const auto pid = static_cast<int>(getpid());
  for (int i = 0; threads_ != nullptr && i < kMaxThreads; ++i) {
    ThreadState& thread = threads_[i];
    if (thread.state.load(std::memory_order_acquire) != ThreadState::live) continue;
    if (thread.ring.readable() != 0) continue;
    const bool is_gone =
        syscall(SYS_tgkill, pid, static_cast<int>(thread.tid), 0) != 0 && errno == ESRCH;
    // Looked at again after the thread was found gone: its last records may have come in between.
    if (is_gone && thread.ring.readable() == 0) {
      thread.state.store(ThreadState::free, std::memory_order_release);
    }
  }
}

void HostCallRecorder::forget_in_child() { t_state = nullptr; }

}  // namespace gpuidle::record
