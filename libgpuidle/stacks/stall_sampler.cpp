// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/stall_sampler.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "libgpuidle/base/own_thread.h"
#include "libgpuidle/record/gate.h"
#include "libgpuidle/record/host_clock.h"
#include "libgpuidle/stacks/stack_word.h"

namespace gpuidle::stacks {
namespace {

using model::ThreadActivity;
using model::WaitTarget;

constexpr std::int64_t kMillisecond_ns = 1'000'000;
constexpr std::int64_t kSecond_ns = 1'000'000'000;
// Shorter absences are what launching is made of.
constexpr std::int64_t kLeastAbsence_ns = kMillisecond_ns;
// A long absence is looked at ever less often: each look adds a 32nd to what is known.
constexpr std::int64_t kLooksPerAbsence = 32;
constexpr std::int64_t kLongestPeriod_ns = kSecond_ns;
// While nobody is away the threads' words are read this many times less often.
constexpr std::int64_t kWellFedFactor = 2;
constexpr int kRoundsUntilWellFed = 8;
constexpr std::int64_t kChildrenPeriod_ns = kSecond_ns;
constexpr std::int64_t kClosedPeriod_ns = 200 * kMillisecond_ns;
// What the sampler works is 1 % of one processor at most. Time in which it worked less is credit
// for when it is needed, but no more than this much work: a look costs 0.1 ms, and one look per gap
// is worth little if the next gap gets none.
constexpr std::int64_t kTimePerWork = 100;
constexpr std::int64_t kMostCredit_ns = 50 * kMillisecond_ns;
constexpr std::int64_t kThrottlingPeriod_ns = 100 * kMillisecond_ns;
// A thread that is ready answers when it gets a processor. One that does not, several times, has
// the signal blocked.
constexpr std::int64_t kAnswerTimeout_ns = 50 * kMillisecond_ns;
constexpr std::uint32_t kMaxUnanswered = 3;
constexpr std::uint64_t kReadyIsLong_ns = 500'000;
constexpr std::size_t kRingSlots = 8192;  // 256 KiB, 300 samples of 25 frames

std::int64_t to_ticks(std::int64_t ns) {
  return static_cast<std::int64_t>(static_cast<double>(ns) * record::g_host_clock.ticks_per_ns);
}
std::int64_t to_ns(std::int64_t ticks) {
  return static_cast<std::int64_t>(static_cast<double>(ticks) / record::g_host_clock.ticks_per_ns);
}

std::int64_t own_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::int64_t{used.tv_sec} * kSecond_ns + used.tv_nsec;
}

// Descriptors of this thread are its own from here on: what it opens shows up in nobody's table,
// and what the program closes is never one of these. Kernels before 5.9 share the table as ever.
void part_with_descriptors() {
#if defined(SYS_close_range)
  constexpr unsigned kUnshare = 2;  // CLOSE_RANGE_UNSHARE
  syscall(SYS_close_range, 0u, ~0u, kUnshare);
#endif
}

}  // namespace

StallSampler& StallSampler::instance() {
  alignas(StallSampler) static unsigned char storage[sizeof(StallSampler)];
  static StallSampler* const sampler = new (storage) StallSampler;
  return *sampler;
}

bool StallSampler::start(const SamplerOptions& options, record::HostCallRecorder& recorder) {
  options_ = options;
  options_.stack_depth = std::min(options.stack_depth, record::kMaxFrames);
  recorder_ = &recorder;
  floor_ticks_ = record::host_ticks();
  if (is_started_) return start_again();
  void* const slots = mmap(nullptr, kRingSlots * sizeof(record::Slot), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slots == MAP_FAILED || !other_stack_.prepare()) return false;
  ring_.init(static_cast<record::Slot*>(slots), kRingSlots);
  is_started_ = base::start_own_thread("gpuidle-sampler", &StallSampler::run, this);
  return is_started_;
}

// False: the thread of the recording before has not ended; it looks at nothing any more.
bool StallSampler::start_again() {
  if (stopped_.load(std::memory_order_acquire) == 0) return false;
  ring_.release(ring_.readable());
  std::fill(std::begin(watches_), std::end(watches_), Watch());
  children_.clear();
  next_children_ticks_ = 0;
  losses_before_ = total_losses();
  stopped_.store(0, std::memory_order_relaxed);
  stopping_.store(0, std::memory_order_release);
  if (base::start_own_thread("gpuidle-sampler", &StallSampler::run, this)) return true;
  stopped_.store(1, std::memory_order_release);
  return false;
}

void StallSampler::stop(std::int64_t timeout_ns) {
  if (!is_started_) return;
  stopping_.store(1, std::memory_order_release);
  base::futex_wake(stopping_);
  const std::int64_t deadline_ns = record::host_now_ns() + timeout_ns;
  while (stopped_.load(std::memory_order_acquire) == 0) {
    const std::int64_t left_ns = deadline_ns - record::host_now_ns();
    if (left_ns <= 0) return;
    base::futex_wait(stopped_, 0, left_ns);
  }
}

SamplerLosses StallSampler::losses() const {
  SamplerLosses losses = total_losses();
  losses.dropped -= losses_before_.dropped;
  losses.moved -= losses_before_.moved;
  losses.unanswered -= losses_before_.unanswered;
  return losses;
}

SamplerLosses StallSampler::total_losses() const {
  SamplerLosses losses;
  losses.dropped = ring_.dropped();
  losses.moved = moved_.load(std::memory_order_relaxed);
  losses.unanswered = unanswered_.load(std::memory_order_relaxed);
  return losses;
}

void StallSampler::restrict(const char* reason) {
  if (restriction()[0] == '\0') restriction_.store(reason, std::memory_order_release);
}

void StallSampler::run(void* self) {
  auto* const sampler = static_cast<StallSampler*>(self);
  // The last border: without memory there are no more samples, and nothing else changes.
  try {
    sampler->loop();
  } catch (const std::exception&) {
    sampler->restrict("out of memory");
  }
  sampler->stopped_.store(1, std::memory_order_release);
  base::futex_wake(sampler->stopped_);
}

void StallSampler::loop() {
  part_with_descriptors();
  throttling_.find();
  const std::int64_t period_ns = kSecond_ns / options_.rate_hz;
  int rounds_fed = 0;
  std::int64_t credit_ns = kMostCredit_ns;
  std::int64_t last_ns = record::host_now_ns();
  while (stopping_.load(std::memory_order_acquire) == 0) {
    std::int64_t rest_ns = kClosedPeriod_ns;
    const std::int64_t before_ns = own_cpu_ns();
    const std::int64_t now_ticks = record::host_ticks();
    if (record::g_gate.epoch() == 0) {
      floor_ticks_ = now_ticks;
    } else {
      rounds_fed = look_round(now_ticks) ? 0 : rounds_fed + 1;
      const bool is_well_fed = rounds_fed > kRoundsUntilWellFed;
      rest_ns = jittered(is_well_fed ? period_ns * kWellFedFactor : period_ns);
    }
    const std::int64_t now_ns = record::host_now_ns();
    credit_ns += (now_ns - last_ns) / kTimePerWork - (own_cpu_ns() - before_ns);
    credit_ns = std::min(credit_ns, kMostCredit_ns);
    last_ns = now_ns;
    base::futex_wait(stopping_, 0, std::max(rest_ns, -credit_ns * kTimePerWork));
  }
  signal_.leave();
}

// Looks at even intervals would see the same spot of every step.
std::int64_t StallSampler::jittered(std::int64_t period_ns) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return period_ns * 3 / 4 + static_cast<std::int64_t>(random_ % 1024) * (period_ns / 2) / 1024;
}

bool StallSampler::look_round(std::int64_t now_ticks) {
  bool is_somebody_away = false;
  for (int i = 0; i < record::kMaxThreads; ++i) {
    record::ThreadState* const state = recorder_->thread(i);
    if (state == nullptr) return false;
    if (state->state.load(std::memory_order_acquire) != record::ThreadState::live) continue;
    const std::int64_t since_ticks = state->away_since_ticks.load(std::memory_order_relaxed);
    if (since_ticks == 0 || to_ns(now_ticks - since_ticks) < kLeastAbsence_ns) continue;
    is_somebody_away = true;
    Watch& watch = watches_[i];
    if (watch.tid != state->tid) watch = {};
    watch.tid = state->tid;
    if (watch.absence_ticks != since_ticks) {
      watch.absence_ticks = since_ticks;
      watch.last_ticks = std::max(since_ticks, floor_ticks_);
      watch.next_ticks = 0;
      watch.has_counts = false;
    }
    if (now_ticks < watch.next_ticks) continue;
    look_at_thread(*state, watch, now_ticks);
    const std::int64_t away_ns = to_ns(now_ticks - since_ticks);
    watch.next_ticks =
        now_ticks + to_ticks(std::min(away_ns / kLooksPerAbsence, kLongestPeriod_ns));
  }
  if (is_somebody_away && now_ticks >= next_children_ticks_) {
    next_children_ticks_ = now_ticks + to_ticks(kChildrenPeriod_ns);
    look_at_children(now_ticks);
  }
  return is_somebody_away;
}

void StallSampler::look_at_thread(record::ThreadState& state, Watch& watch,
                                  std::int64_t now_ticks) {
  const int tid = static_cast<int>(watch.tid);
  const ProcFolder folder = ProcFolder::of_own_thread(tid);
  ThreadLook look = look_at(folder);
  if (look.is_gone()) return;
  sample_.facts = {};
  words_ = 0;
  take_stack(folder, tid, watch, &look);
  // Back in CUDA: the look came too late for this absence.
  if (state.away_since_ticks.load(std::memory_order_relaxed) != watch.absence_ticks) return;
  add_counts(look, now_ticks, watch);
  std::memcpy(sample_.facts.name, look.status.name, sizeof(look.status.name));
  push(folder.pid, tid, watch.last_ticks, now_ticks);
  watch.last_ticks = now_ticks;
}

// Fills the sample's activity, target and stack. `*look` becomes the look that they belong to.
void StallSampler::take_stack(const ProcFolder& folder, int tid, Watch& watch, ThreadLook* look) {
  constexpr int kTries = 2;  // a thread that goes on while it is read is often asleep again
  for (int i = 0; i < kTries; ++i) {
    const bool is_ready = look->call.is_known ? look->call.is_running : look->status.state == 'R';
    if (is_ready) {
      take_running(folder, tid, watch, look);
      return;
    }
    sample_.facts.activity = ThreadActivity::waiting;
    if (!look->call.is_known) {
      restrict("the system does not tell what its threads wait for (/proc/self/task/*/syscall)");
      return;
    }
    if (take_standing(folder, tid, look)) return;
  }
  words_ = 0;
  moved_.fetch_add(1, std::memory_order_relaxed);
}

// False: the thread has gone on meanwhile; `*look` is how it is now.
bool StallSampler::take_standing(const ProcFolder& folder, int tid, ThreadLook* look) {
  bool is_cut = false;
  bool waits_for_python = false;
  KnownThread known;
  if (ThreadWalkers::find(tid, &known)) {
    words_ = other_stack_.capture(known, look->call.stack_pointer, look->call.instruction,
                                  sample_.words, options_.stack_depth, &is_cut, &waits_for_python);
    if (!other_stack_.is_permitted()) {
      restrict("the system does not let a process read its own memory (process_vm_readv)");
    }
  }
  const WaitTarget target =
      waits_for_python ? WaitTarget::interpreter_lock : targets_.find(folder, *look);
  const ThreadLook after = look_again(folder, *look);
  if (!is_same_standstill(*look, after)) {
    *look = after;
    return false;
  }
  sample_.facts.system_call = look->call.number;
  sample_.facts.target = target;
  return true;
}

// A signal that a thread blocks would stay pending, where the program can see it.
bool StallSampler::takes_signals(const ProcFolder& folder, Watch& watch) {
  if (watch.asked_ticks != watch.absence_ticks) {
    watch.asked_ticks = watch.absence_ticks;
    char text[4096];
    const std::size_t count = read_proc(folder, "status", text, sizeof(text));
    watch.is_signal_blocked = parse_is_blocked({text, count}, SignalCapture::kSignal);
  }
  return !watch.is_signal_blocked && watch.unanswered < kMaxUnanswered;
}

void StallSampler::take_running(const ProcFolder& folder, int tid, Watch& watch, ThreadLook* look) {
  sample_.facts.activity = ThreadActivity::running;
  sample_.facts.system_call = -1;
  sample_.facts.target = WaitTarget::unknown;
  if (!takes_signals(folder, watch)) {
    unanswered_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t* words = nullptr;
  bool is_cut = false;
  switch (signal_.take(tid, options_.stack_depth, kAnswerTimeout_ns, &words, &words_, &is_cut)) {
    case SignalCapture::Answer::taken:
      watch.unanswered = 0;
      std::memcpy(sample_.words, words, static_cast<std::size_t>(words_) * sizeof(*words));
      // Readers take an address for that of a call's return; this one is of an instruction.
      if (words_ > 0 && !is_python_word(sample_.words[0])) ++sample_.words[0];
      break;
    case SignalCapture::Answer::not_in_time:
      ++watch.unanswered;
      unanswered_.fetch_add(1, std::memory_order_relaxed);
      break;
    case SignalCapture::Answer::gone:
      break;
    case SignalCapture::Answer::refused:
      restrict(signal_.refusal());
      break;
  }
  const ThreadLook after = look_again(folder, *look);
  const bool was_ready_long = after.use.is_known && look->use.is_known &&
                              after.use.wait_ns - look->use.wait_ns >= kReadyIsLong_ns;
  if (was_ready_long) sample_.facts.activity = ThreadActivity::runnable;
  look->use = after.use;
}

std::uint64_t StallSampler::throttled_so_far_ns(std::int64_t now_ticks) {
  if (now_ticks >= next_throttling_ticks_) {
    next_throttling_ticks_ = now_ticks + to_ticks(kThrottlingPeriod_ns);
    throttled_ns_ = throttling_.total_ns();
  }
  return throttled_ns_;
}

void StallSampler::add_counts(const ThreadLook& look, std::int64_t look_ticks, Watch& watch) {
  record::SampleFacts& facts = sample_.facts;
  const std::uint64_t throttled_ns = throttled_so_far_ns(look_ticks);
  if (watch.has_counts && look.use.is_known) {
    facts.has_counts = true;
    facts.cpu_ns = look.use.cpu_ns - std::min(look.use.cpu_ns, watch.use.cpu_ns);
    facts.run_queue_wait_ns = look.use.wait_ns - std::min(look.use.wait_ns, watch.use.wait_ns);
    facts.throttled_ns = throttled_ns - std::min(throttled_ns, watch.throttled_ns);
    facts.major_faults = static_cast<std::uint32_t>(
        look.status.major_faults - std::min(look.status.major_faults, watch.major_faults));
  }
  watch.has_counts = look.use.is_known;
  watch.use = look.use;
  watch.major_faults = look.status.major_faults;
  watch.throttled_ns = throttled_ns;
}

void StallSampler::look_at_children(std::int64_t now_ticks) {
  const std::vector<int>& pids = child_list_.list();
  children_.erase(std::remove_if(children_.begin(), children_.end(),
                                 [&](const ChildWatch& child) {
                                   return std::find(pids.begin(), pids.end(), child.pid) ==
                                          pids.end();
                                 }),
                  children_.end());
  for (const int pid : pids) {
    auto child = std::find_if(children_.begin(), children_.end(),
                              [&](const ChildWatch& known) { return known.pid == pid; });
    const bool is_new = child == children_.end();
    if (is_new) child = children_.insert(child, ChildWatch{pid, {}});
    const ProcFolder folder = ProcFolder::of_process(pid);
    const ThreadLook look = look_at(folder);
    if (look.is_gone()) continue;
    sample_.facts = {};
    words_ = 0;
    record::SampleFacts& facts = sample_.facts;
    facts.is_child_process = true;
    facts.activity = look.status.state == 'R' ? ThreadActivity::running
                     : look.status.state == 'Z' || look.status.state == 'X'
                         ? ThreadActivity::ended
                         : ThreadActivity::waiting;
    if (facts.activity == ThreadActivity::waiting) {
      facts.target = targets_.find(folder, look);
      facts.system_call = look.call.is_known ? look.call.number : -1;
    }
    add_counts(look, now_ticks, child->watch);
    std::memcpy(facts.name, look.status.name, sizeof(look.status.name));
    // A first look tells of no span.
    push(pid, pid, is_new ? now_ticks : child->watch.last_ticks, now_ticks);
    child->watch.last_ticks = now_ticks;
  }
}

void StallSampler::push(int pid, int tid, std::int64_t start_ticks, std::int64_t end_ticks) {
  record::SampleRecord record;
  record.head.kind = record::RecordKind::sample;
  record.head.stack = static_cast<std::uint32_t>(words_);
  record.start_ticks = start_ticks;
  record.end_ticks = end_ticks;
  record.pid = static_cast<std::uint32_t>(pid);
  record.tid = static_cast<std::uint32_t>(tid);
  ring_.push(record, &sample_,
             sizeof(sample_.facts) + static_cast<std::size_t>(words_) * sizeof(std::uint64_t));
}

}  // namespace gpuidle::stacks
