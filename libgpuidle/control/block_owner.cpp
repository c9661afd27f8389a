// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/control/block_owner.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include "libgpuidle/control/block_name.h"
#include "libgpuidle/control/shared_futex.h"

namespace gpuidle::control {
namespace {

namespace ipc = boost::interprocess;

base::Status unavailable(const std::string& why) { return {base::StatusCode::unavailable, why}; }

// Growing a file past RLIMIT_FSIZE is a signal that ends the program.
bool may_grow_files() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= kBlockBytes;
}

// Space for the page, or the reason why there is none.
int reserve(int fd) {
  int reason = 0;
  do {
    reason = posix_fallocate(fd, 0, kBlockBytes);
  } while (reason == EINTR);
  return reason;
}

void copy_text(char* to, std::size_t capacity, const std::string& from) {
  const std::size_t length = std::min(from.size(), capacity - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

// Throws what Boost throws; create() is the border.
base::Status make_page(const char* name, ControlBlock** block) {
  ipc::permissions owner_only(0600);
  ipc::shared_memory_object memory(ipc::create_only, name, ipc::read_write, owner_only);
  const int fd = memory.get_mapping_handle().handle;
  if (ftruncate(fd, kBlockBytes) != 0) {
    const std::string why = std::strerror(errno);
    shm_unlink(name);
    return unavailable("cannot size the control block: " + why);
  }
  if (const int reason = reserve(fd); reason != 0) {
    shm_unlink(name);
    return unavailable(std::string("no room for the control block in /dev/shm: ") +
                       std::strerror(reason));
  }
  try {
    // Never unmapped: threads may look at the page while the program ends.
    static auto* const regions = new std::vector<std::unique_ptr<ipc::mapped_region>>;
    regions->push_back(
        std::make_unique<ipc::mapped_region>(memory, ipc::read_write, 0, kBlockBytes));
    *block = new (regions->back()->get_address()) ControlBlock{};
  } catch (...) {
    shm_unlink(name);
    throw;
  }
  return {};
}

}  // namespace

base::Status BlockOwner::create(const char* tool_version) {
  const auto ticks = start_ticks("self");
  const auto own_namespace = pid_namespace("self");
  if (!ticks.has_value() || !own_namespace.has_value()) {
    return unavailable("/proc cannot be read, so that no control block can be named");
  }
  if (!may_grow_files()) return unavailable("RLIMIT_FSIZE is below the size of the control block");
  remove_stale_blocks();
  const auto uid = static_cast<std::uint32_t>(geteuid());
  const auto pid = static_cast<std::uint32_t>(getpid());
  const std::string name = "/" + BlockName{uid, pid, *own_namespace}.text();
  copy_text(name_, sizeof(name_), name);
  ControlBlock* block = nullptr;
  try {
    // There if this process had a recorder before it ran exec; another user's stays and is told.
    shm_unlink(name_);
    if (base::Status status = make_page(name_, &block); !status.ok()) return status;
  } catch (const std::exception& error) {
    return unavailable(std::string("no control block in /dev/shm: ") + error.what());
  }
  block->layout_version = kLayoutVersion;
  block->bytes = kBlockBytes;
  block->pid = pid;
  block->uid = uid;
  block->start_ticks = *ticks;
  block->pid_namespace = *own_namespace;
  copy_text(block->tool_version, sizeof(block->tool_version), tool_version);
  block->magic.store(kMagic, std::memory_order_release);
  block_.store(block, std::memory_order_release);
  return {};
}

void BlockOwner::remove() {
  if (block_.load(std::memory_order_acquire) != nullptr && name_[0] != '\0') shm_unlink(name_);
  name_[0] = '\0';
}

Request BlockOwner::wait(std::int64_t timeout_ns) {
  Request request;
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr) return request;
  const std::uint32_t wakes = wakes_.load(std::memory_order_acquire);
  if (block->requested.load(std::memory_order_acquire) == heard_ && wakes == seen_wakes_) {
    shared_futex_wait(block->requested, heard_, timeout_ns);
  }
  seen_wakes_ = wakes;
  const std::uint32_t number = block->requested.load(std::memory_order_acquire);
  if (number == heard_) return request;
  heard_ = number;
  request.number = number;
  request.command = block->command.load(std::memory_order_relaxed);
  request.duration_ns =
      std::max<std::int64_t>(block->duration_ns.load(std::memory_order_relaxed), 0);
  request.has_lease = block->has_lease.load(std::memory_order_relaxed) != 0;
  char output[kMaxPathBytes];
  std::memcpy(output, block->output, sizeof(output));  // the client may still be writing
  request.output.assign(output, strnlen(output, sizeof(output)));
  return request;
}

void BlockOwner::wake() {
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr) return;
  wakes_.fetch_add(1, std::memory_order_release);
  shared_futex_wake(block->requested);
}

void BlockOwner::changed(ControlBlock& block) {
  block.changes.fetch_add(1, std::memory_order_release);
  shared_futex_wake(block.changes);
}

void BlockOwner::answer(const Request& request, Answer answer, const std::string& text) {
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr) return;
  copy_text(block->text, sizeof(block->text), text);
  block->answer.store(answer, std::memory_order_relaxed);
  block->answered.store(request.number, std::memory_order_release);
  changed(*block);
}

std::uint32_t BlockOwner::beats() const {
  const ControlBlock* block = block_.load(std::memory_order_acquire);
  return block == nullptr ? 0 : block->beats.load(std::memory_order_relaxed);
}

void BlockOwner::set_state(State state, StartedBy started_by) {
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr) return;
  block->started_by.store(started_by, std::memory_order_relaxed);
  block->state.store(state, std::memory_order_release);
  changed(*block);
}

void BlockOwner::note_dormant() {
  const ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr || block->state.load(std::memory_order_relaxed) == State::dormant) return;
  set_state(State::dormant, StartedBy::nobody);
}

void BlockOwner::set_left(std::int64_t left_ns) {
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block != nullptr) block->left_ns.store(left_ns, std::memory_order_relaxed);
}

void BlockOwner::note_recording(const std::string& trace_path, std::int64_t now_ns) {
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr) return;
  // A path that is cut would name another file.
  copy_text(block->trace_path, sizeof(block->trace_path),
            trace_path.size() < kMaxPathBytes ? trace_path : "");
  block->recording_ns.store(now_ns, std::memory_order_relaxed);
  block->recordings.fetch_add(1, std::memory_order_relaxed);
  publish({});
  changed(*block);
}

void BlockOwner::add_own_thread(std::uint32_t tid) {
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr) return;
  for (std::atomic<std::uint32_t>& slot : block->own_threads) {
    std::uint32_t expected = 0;
    if (slot.compare_exchange_strong(expected, tid) || expected == tid) return;
  }
}

void BlockOwner::publish(const Counters& counters) {
  ControlBlock* block = block_.load(std::memory_order_acquire);
  if (block == nullptr) return;
  const std::uint32_t before = block->counting.load(std::memory_order_relaxed) | 1U;
  block->counting.store(before, std::memory_order_relaxed);
  // Release, each: nobody sees one of them without the odd number before it.
  const std::size_t count = std::min(counters.device_count, kMaxDevices);
  block->device_count.store(static_cast<std::uint32_t>(count), std::memory_order_release);
  block->counted_ns.store(counters.counted_ns, std::memory_order_release);
  block->calls.store(counters.calls, std::memory_order_release);
  block->activities.store(counters.activities, std::memory_order_release);
  block->losses.store(counters.losses, std::memory_order_release);
  block->file_bytes.store(counters.file_bytes, std::memory_order_release);
  for (std::size_t i = 0; i < count; ++i) {
    DeviceCounters& to = block->devices[i];
    to.device.store(counters.devices[i].device, std::memory_order_release);
    to.busy_ns.store(counters.devices[i].busy_ns, std::memory_order_release);
    to.idle_ns.store(counters.devices[i].idle_ns, std::memory_order_release);
    to.gaps.store(counters.devices[i].gaps, std::memory_order_release);
  }
  block->counting.store(before + 1, std::memory_order_release);
}

}  // namespace gpuidle::control
