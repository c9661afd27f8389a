// SPDX-License-Identifier: Apache-2.0
//
// Futexes on words that two processes map. A page that a hostile client cut away is an error of the
// call here, while reading it would be a signal. Used by both sides of the control block.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace gpuidle::control {

/// Sleeps until woken, a value other than `expected`, or `timeout_ns`. May return early.
inline void shared_futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                              std::int64_t timeout_ns) {
  timespec timeout{};
  timeout.tv_sec = timeout_ns / 1'000'000'000;
  timeout.tv_nsec = timeout_ns % 1'000'000'000;
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

/// Context: any.
inline void shared_futex_wake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace gpuidle::control
