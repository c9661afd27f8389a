// SPDX-License-Identifier: Apache-2.0
//
// What a hook writes into: one ring per host thread, single writer (that thread), single reader
// (the drain thread). Never blocks and never overwrites: a record that does not fit is dropped and
// counted. Rings lie in shared pages, which outlive the process for whoever has mapped them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuidle::record {

/// Unit of a ring: half a cache line, the size of a call record.
struct alignas(32) Slot {
  std::uint64_t word[4];
};

enum class RecordKind : std::uint8_t { none = 0, call = 1, stack = 2, marker = 3, sample = 4 };

/// First bytes of every record.
struct RecordHead {
  RecordKind kind = RecordKind::none;
  std::uint8_t slots = 1;   ///< length of the record in slots, this one included
  std::uint16_t value = 0;  ///< call: row of the list of calls; stack: cache entry; marker: kind
  std::uint32_t stack = 0;  ///< call: 1 + cache entry of its stack, 0 = none; stack and
                            ///< sample: frames; marker: bytes of the name
};

/// A finished host call. Times are ticks of record::host_ticks().
struct CallRecord {
  RecordHead head;
  std::int64_t enter_ticks = 0;
  std::int64_t exit_ticks = 0;
  std::uint32_t correlation = 0;
  std::int32_t result = 0;
};
static_assert(sizeof(CallRecord) == sizeof(Slot));

/// A marker; its name follows in the next slots. Times are CLOCK_MONOTONIC nanoseconds.
struct MarkerRecord {
  RecordHead head;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(MarkerRecord) == sizeof(Slot));

/// Context: push() hook, on the ring's own thread; peek(), release(), dropped() drain.
class ThreadRing {
 public:
  /// `slots` has `capacity` (a power of two) entries and outlives the ring.
  void init(Slot* slots, std::size_t capacity) {
    slots_ = slots;
    mask_ = capacity - 1;
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
    known_tail_ = 0;
  }

  /// Appends a record of one slot, plus `payload_bytes` that follow it in further slots (zero
  /// padded). False: no room, nothing was written and the drop is counted.
  template <typename Record>
  bool push(Record record, const void* payload = nullptr, std::size_t payload_bytes = 0) {
    static_assert(sizeof(Record) == sizeof(Slot));
    const std::size_t count = 1 + (payload_bytes + sizeof(Slot) - 1) / sizeof(Slot);
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head + count - known_tail_ > mask_ + 1) {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head + count - known_tail_ > mask_ + 1) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return false;
      }
    }
    record.head.slots = static_cast<std::uint8_t>(count);
    std::memcpy(&slots_[head & mask_], &record, sizeof(Slot));
    const auto* bytes = static_cast<const unsigned char*>(payload);
    for (std::size_t i = 1; i < count; ++i) {
      const std::size_t begin = (i - 1) * sizeof(Slot);
      const std::size_t left = payload_bytes - begin;
      const std::size_t n = left < sizeof(Slot) ? left : sizeof(Slot);
      Slot& slot = slots_[(head + i) & mask_];
      if (n < sizeof(Slot)) slot = Slot{};
      std::memcpy(&slot, bytes + begin, n);
    }
    head_.store(head + count, std::memory_order_release);
    return true;
  }

  /// Number of slots that can be read now.
  std::size_t readable() const {
    return static_cast<std::size_t>(head_.load(std::memory_order_acquire) -
                                    tail_.load(std::memory_order_relaxed));
  }
  /// Copies `count` <= readable() slots, from `first` slots after the tail.
  void peek(std::size_t first, std::size_t count, Slot* out) const {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) out[i] = slots_[(tail + first + i) & mask_];
  }
  /// Gives `count` slots back to the writer.
  void release(std::size_t count) {
    tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }
  /// Records dropped for lack of room, total.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  Slot* slots_ = nullptr;
  std::uint64_t mask_ = 0;
  // Writer and reader each have their own cache line.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t known_tail_ = 0;  // writer's last look at tail_
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace gpuidle::record
