// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/base/loaded_objects.h"

#include <link.h>
#include <pthread.h>
#include <time.h>

#include <atomic>

namespace gpuidle::base {
namespace {

pthread_mutex_t g_inside = PTHREAD_MUTEX_INITIALIZER;
std::atomic<pthread_t> g_forking{};  // holds g_inside while it forks; pthread_self() never is 0

timespec soon() {
  constexpr long kPatience_ns = 100'000'000;
  constexpr long kSecond_ns = 1'000'000'000;
  timespec at{};
  clock_gettime(CLOCK_REALTIME, &at);
  at.tv_nsec += kPatience_ns;
  if (at.tv_nsec >= kSecond_ns) {
    at.tv_nsec -= kSecond_ns;
    ++at.tv_sec;
  }
  return at;
}

}  // namespace

int for_each_loaded_object(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument) {
  pthread_mutex_lock(&g_inside);
  const int result = dl_iterate_phdr(visit, argument);
  pthread_mutex_unlock(&g_inside);
  return result;
}

void hold_loaded_objects_before_fork() {
  const timespec until = soon();
  if (pthread_mutex_timedlock(&g_inside, &until) == 0) g_forking.store(pthread_self());
}

void free_loaded_objects_after_fork() {
  if (g_forking.load() != pthread_self()) return;
  g_forking.store({});
  pthread_mutex_unlock(&g_inside);
}

}  // namespace gpuidle::base
