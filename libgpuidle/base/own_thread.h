// SPDX-License-Identifier: Apache-2.0
//
// The few threads the library starts in the host, and how they sleep: all signals blocked, so that
// none of the host's handlers ever runs on them, and futexes, which can be waited on from exit
// paths where a mutex of ours may never become free.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpuidle::base {

/// Starts a detached thread named `name` (at most 15 characters). False: the system refused.
/// Context: control.
bool start_own_thread(const char* name, void (*body)(void*), void* argument);

/// Sleeps until `word` no longer holds `expected`, a wake-up, or `timeout_ns`. May return early.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::int64_t timeout_ns);
/// Context: any, also signal handlers.
void futex_wake(const std::atomic<std::uint32_t>& word);

}  // namespace gpuidle::base
