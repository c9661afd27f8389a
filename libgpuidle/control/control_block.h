// SPDX-License-Identifier: Apache-2.0
//
// The control block: one page of shared memory per process that uses CUDA under the recorder. It is
// the whole protocol between the recorder (BlockOwner) and `gpuidle attach` and `top`
// (BlockClient): the client writes a request and wakes the recorder, which answers and publishes
// what it is doing. Either side may die at any moment, and neither believes the other: every value
// is checked before use, and no lock is held across the two.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuidle::control {

inline constexpr std::uint64_t kMagic = 0x31746c7263756967;  ///< "giucrlt1"
inline constexpr std::uint32_t kLayoutVersion = 1;
inline constexpr std::size_t kBlockBytes = 4096;
inline constexpr std::size_t kMaxPathBytes = 1024;  ///< with its terminating zero
inline constexpr std::size_t kMaxTextBytes = 384;
inline constexpr std::size_t kMaxDevices = 16;
inline constexpr std::size_t kMaxOwnThreads = 8;

/// dormant: nothing is recorded, a request would be heard. armed: a recording is being switched
/// on. draining: it is being written to its end.
enum class State : std::uint32_t { dormant = 0, armed = 1, recording = 2, draining = 3 };

/// Why a recording runs: by the settings (GPUIDLE_START=auto or manual), or on request.
enum class StartedBy : std::uint32_t { nobody = 0, settings = 1, request = 2 };

enum class Command : std::uint32_t { none = 0, start = 1, stop = 2 };

enum class Answer : std::uint32_t {
  done = 0,
  refused = 1,            ///< the text says why
  already_recording = 2,  ///< of start: by the settings or for another client
  not_recording = 3,      ///< of stop
};

/// Totals of one device since the recording began. They end at the last operation that is known to
/// be complete, about 1.5 s ago: busy_ns + idle_ns is the time from the first operation to it.
struct DeviceCounters {
  std::atomic<std::uint32_t> device;
  std::uint32_t reserved;
  std::atomic<std::int64_t> busy_ns;
  std::atomic<std::int64_t> idle_ns;
  std::atomic<std::uint64_t> gaps;
};

/// The page. Fields are grouped by who writes them, each group on cache lines of its own.
struct ControlBlock {
  // Identity; the recorder writes it once, the magic last.
  std::atomic<std::uint64_t> magic;
  std::uint32_t layout_version;
  std::uint32_t bytes;
  std::uint32_t pid;  ///< in the recorder's own pid namespace
  std::uint32_t uid;
  std::uint64_t start_ticks;  ///< field 22 of /proc/PID/stat: a reused pid differs
  std::uint64_t pid_namespace;
  char tool_version[16];

  // By the recorder.
  alignas(64) std::atomic<std::uint32_t> changes;  ///< futex; goes up after every change below it
  std::atomic<State> state;
  std::atomic<StartedBy> started_by;
  std::atomic<std::uint32_t> answered;  ///< number of the request that was answered last
  std::atomic<Answer> answer;
  std::atomic<std::uint32_t> recordings;   ///< that have begun so far
  std::atomic<std::int64_t> recording_ns;  ///< CLOCK_MONOTONIC at its begin
  std::atomic<std::int64_t> left_ns;       ///< at most, until it ends by itself; 0 = no end set
  std::atomic<std::uint32_t> own_threads[kMaxOwnThreads];  ///< tids, 0 = none

  // By the client.
  alignas(64) std::atomic<std::uint32_t> requested;  ///< futex; number of the request, written last
  std::atomic<Command> command;
  std::atomic<std::uint32_t> beats;       ///< goes up while the client lives
  std::atomic<std::uint32_t> has_lease;   ///< 1: end the recording when the beats stop
  std::atomic<std::int64_t> duration_ns;  ///< 0 = until stopped
  char output[kMaxPathBytes];             ///< pattern, "" = the setting

  // By the recorder, a few times a second: odd while it writes.
  alignas(64) std::atomic<std::uint32_t> counting;
  std::atomic<std::uint32_t> device_count;
  std::atomic<std::int64_t> counted_ns;  ///< CLOCK_MONOTONIC
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> activities;
  std::atomic<std::uint64_t> losses;
  std::atomic<std::uint64_t> file_bytes;
  DeviceCounters devices[kMaxDevices];

  char text[kMaxTextBytes];        ///< of the answer, one line
  char trace_path[kMaxPathBytes];  ///< of the last recording, absolute
  unsigned char reserved[832];
};
static_assert(sizeof(ControlBlock) == kBlockBytes);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<State>::is_always_lock_free);

}  // namespace gpuidle::control
