// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/cupti/activity_buffers.h"

#include <sys/mman.h>

namespace gpuidle::cupti {
namespace {

std::uint8_t* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

}  // namespace

bool ActivityBuffers::prepare(CountRecords count_records) {
  count_records_ = count_records;
  if (base_ == nullptr) base_ = map(kBufferBytes * kBufferCount);
  return base_ != nullptr;
}

int ActivityBuffers::slot_of(const std::uint8_t* buffer) const {
  if (base_ == nullptr || buffer < base_ || buffer >= base_ + kBufferBytes * kBufferCount)
    return -1;
  return static_cast<int>(static_cast<std::size_t>(buffer - base_) / kBufferBytes);
}

int ActivityBuffers::claim_oldest_filled(State claimed_as) {
  for (;;) {
    int oldest = -1;
    std::uint64_t oldest_order = ~std::uint64_t{0};
    for (int i = 0; i < kBufferCount; ++i) {
      Slot& slot = slots_[static_cast<std::size_t>(i)];
      if (slot.state.load(std::memory_order_acquire) != filled) continue;
      const std::uint64_t order = slot.order.load(std::memory_order_relaxed);
      if (order < oldest_order) {
        oldest_order = order;
        oldest = i;
      }
    }
    if (oldest < 0) return -1;
    std::uint32_t expected = filled;
    if (slots_[static_cast<std::size_t>(oldest)].state.compare_exchange_strong(
            expected, claimed_as, std::memory_order_acquire)) {
      return oldest;
    }
    // Another thread was faster: look again.
  }
}

void ActivityBuffers::give_up(std::uint8_t* buffer, std::size_t valid_bytes) {
  lost_records_.fetch_add(count_records_(buffer, valid_bytes), std::memory_order_relaxed);
}

std::uint8_t* ActivityBuffers::request() {
  if (base_ == nullptr) return nullptr;
  for (int i = 0; i < kBufferCount; ++i) {
    std::uint32_t expected = free;
    if (slots_[static_cast<std::size_t>(i)].state.compare_exchange_strong(
            expected, with_cupti, std::memory_order_acquire)) {
      return base_ + static_cast<std::size_t>(i) * kBufferBytes;
    }
  }
  const int reused = claim_oldest_filled(with_cupti);
  if (reused >= 0) {
    std::uint8_t* buffer = base_ + static_cast<std::size_t>(reused) * kBufferBytes;
    give_up(buffer, slots_[static_cast<std::size_t>(reused)].valid_bytes);
    return buffer;
  }
  // All are with CUPTI (more threads than buffers): one more, unmapped when it comes back.
  return map(kBufferBytes);
}

void ActivityBuffers::complete(std::uint8_t* buffer, std::size_t valid_bytes) {
  if (buffer == nullptr) return;
  const int index = slot_of(buffer);
  if (index < 0) {
    // A buffer beyond the bound has no slot to wait in: its records are given up.
    give_up(buffer, valid_bytes);
    munmap(buffer, kBufferBytes);
    return;
  }
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot.valid_bytes = valid_bytes;
  slot.order.store(completions_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  slot.state.store(valid_bytes == 0 ? free : filled, std::memory_order_release);
}

ActivityBuffers::Filled ActivityBuffers::take() {
  const int index = claim_oldest_filled(reading);
  if (index < 0) return {};
  return {base_ + static_cast<std::size_t>(index) * kBufferBytes,
          slots_[static_cast<std::size_t>(index)].valid_bytes, index};
}

void ActivityBuffers::release(const Filled& filled_buffer) {
  slots_[static_cast<std::size_t>(filled_buffer.slot)].state.store(free, std::memory_order_release);
}

}  // namespace gpuidle::cupti
