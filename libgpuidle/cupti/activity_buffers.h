// SPDX-License-Identifier: Apache-2.0
//
// The buffers CUPTI fills with activity records. CUPTI asks for one on any thread of the host and
// gives it back on any other; between the two it is CUPTI's alone. Bounded memory: when every
// buffer is filled and not yet read, the oldest filled one is given out again and what it held is
// counted as lost, because answering "none" crashes CUPTI before 12.9.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuidle::cupti {

/// Context: request() and complete() cupti; the rest drain (one thread).
class ActivityBuffers {
 public:
  // 96 x 256 KiB: with one buffer per host thread (CUPTI 13's default) enough for 96 threads, and
  // 1,200 kernel records each, so that a thread at 100,000 launches/s fills one in 12 ms.
  static constexpr std::size_t kBufferBytes = 256 * 1024;
  static constexpr int kBufferCount = 96;

  /// Tells how many records a filled buffer holds. Context: cupti.
  using CountRecords = std::uint64_t (*)(std::uint8_t* buffer, std::size_t valid_bytes);

  /// Reserves the address space; pages come as CUPTI touches them. False with errno set.
  bool prepare(CountRecords count_records);

  /// A buffer of kBufferBytes, 8-byte aligned. Never nullptr unless the system is out of memory.
  std::uint8_t* request();
  /// CUPTI returns a buffer with `valid_bytes` of records.
  void complete(std::uint8_t* buffer, std::size_t valid_bytes);

  struct Filled {
    std::uint8_t* data = nullptr;  ///< nullptr = none left
    std::size_t valid_bytes = 0;
    int slot = -1;
  };
  /// The oldest filled buffer. It must go back by release().
  Filled take();
  void release(const Filled& filled);

  /// Records that were given up unread, total.
  std::uint64_t lost_records() const { return lost_records_.load(std::memory_order_relaxed); }

 private:
  enum State : std::uint32_t { free = 0, with_cupti = 1, filled = 2, reading = 3 };
  struct Slot {
    std::atomic<std::uint32_t> state{free};
    std::atomic<std::uint64_t> order{0};  // of completion
    std::size_t valid_bytes = 0;
  };

  void give_up(std::uint8_t* buffer, std::size_t valid_bytes);
  int claim_oldest_filled(State claimed_as);
  int slot_of(const std::uint8_t* buffer) const;

  CountRecords count_records_ = nullptr;
  std::uint8_t* base_ = nullptr;
  std::array<Slot, kBufferCount> slots_;
  std::atomic<std::uint64_t> completions_{0};
  std::atomic<std::uint64_t> lost_records_{0};
};

}  // namespace gpuidle::cupti
