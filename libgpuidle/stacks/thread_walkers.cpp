// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/thread_walkers.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace gpuidle::stacks {
namespace {

struct Place {
  enum State : std::uint32_t { free = 0, claimed = 1, live = 2 };
  std::atomic<std::uint32_t> state{free};
  int pid = 0;
  int tid = 0;
  pthread_t self = 0;
  StackBounds bounds;
  std::atomic<const char*> python_state{nullptr};
  StackWalker* walker = nullptr;  // stays mapped for the next thread
};
std::array<Place, ThreadWalkers::kMaxThreads> g_places;

// Initial-exec: one load, and no allocation at a thread's first access. One pointer only, so that
// the library can also be opened late, when little static TLS is left.
__attribute__((tls_model("initial-exec"))) thread_local Place* t_place = nullptr;

// Gives a claimed place what its thread needs; false: that is not to be had.
bool furnish(Place* place) {
  if (place->walker == nullptr) place->walker = StackWalker::map_new();
  if (place->walker == nullptr) return false;
  const StackBounds bounds = find_stack_bounds();
  if (bounds.end == 0) return false;
  place->pid = static_cast<int>(getpid());
  place->tid = static_cast<int>(syscall(SYS_gettid));
  place->self = pthread_self();
  place->bounds = bounds;
  place->python_state.store(nullptr, std::memory_order_relaxed);
  place->walker->set_bounds(bounds);
  return true;
}

Place* claim() {
  for (Place& place : g_places) {
    std::uint32_t expected = Place::free;
    if (!place.state.compare_exchange_strong(expected, Place::claimed, std::memory_order_acquire)) {
      continue;
    }
    const bool is_furnished = furnish(&place);
    place.state.store(is_furnished ? Place::live : Place::free, std::memory_order_release);
    return is_furnished ? &place : nullptr;
  }
  return nullptr;
}

}  // namespace

StackWalker* ThreadWalkers::of_this_thread() {
  if (t_place == nullptr) {
    const int saved_errno = errno;
    Place* const place = claim();
    // A handler sees a whole walker or none.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_place = place;
    errno = saved_errno;
  }
  return existing_of_this_thread();
}

StackWalker* ThreadWalkers::existing_of_this_thread() {
  return t_place == nullptr ? nullptr : t_place->walker;
}

void ThreadWalkers::note_python_state(const char* state) {
  if (t_place != nullptr) t_place->python_state.store(state, std::memory_order_relaxed);
}

bool ThreadWalkers::find(int tid, KnownThread* known) {
  for (Place& place : g_places) {
    if (place.state.load(std::memory_order_acquire) != Place::live || place.tid != tid) continue;
    known->bounds = place.bounds;
    known->self = place.self;
    known->python_state = place.python_state.load(std::memory_order_relaxed);
    return true;
  }
  return false;
}

void ThreadWalkers::reclaim() {
  const auto pid = static_cast<int>(getpid());
  for (Place& place : g_places) {
    // In a forked child the places of its parent's threads stay taken: one of them is the child's.
    if (place.state.load(std::memory_order_acquire) != Place::live || place.pid != pid) continue;
    if (syscall(SYS_tgkill, pid, place.tid, 0) != 0 && errno == ESRCH) {
      place.state.store(Place::free, std::memory_order_release);
    }
  }
}

}  // namespace gpuidle::stacks
