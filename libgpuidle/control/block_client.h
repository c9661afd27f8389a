// SPDX-License-Identifier: Apache-2.0
//
// The command's side of the control block: finds the block of a process, also in a container, reads
// it and sends requests. Believes nothing that is in it. Feeds tools/gpuidle.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libgpuidle/base/status.h"
#include "libgpuidle/control/block_owner.h"
#include "libgpuidle/control/control_block.h"

namespace gpuidle::control {

/// What the block says at one moment; texts are printable and end.
struct BlockView {
  State state = State::dormant;
  StartedBy started_by = StartedBy::nobody;
  std::uint32_t changes = 0;
  std::uint32_t answered = 0;
  Answer answer = Answer::refused;
  std::uint32_t recordings = 0;
  std::int64_t recording_ns = 0;
  std::int64_t left_ns = 0;
  std::array<std::uint32_t, kMaxOwnThreads> own_threads{};
  std::string tool_version;
  std::string text;
  std::string trace_path;
  Counters counters;  ///< `devices` points into `devices` below
  std::vector<DeviceTotals> devices;
};

/// Context: tool.
class BlockClient {
 public:
  /// The block of process `pid` of this pid namespace. Errors: not_found (no block),
  /// permission_denied (another user's process), corrupt (not what a recorder writes),
  /// unsupported_version (a recorder of another version).
  static base::Result<BlockClient> open(pid_t pid);

  BlockClient(BlockClient&& other) noexcept;
  BlockClient& operator=(BlockClient&&) = delete;
  ~BlockClient();

  /// Errors: corrupt, if the page is gone or says what cannot be.
  base::Result<BlockView> view() const;

  /// Sends a request; its number. `output` must be shorter than kMaxPathBytes.
  base::Result<std::uint32_t> send(const Request& request) const;
  void beat() const;  ///< for a recording with a lease, at least once a second

  /// Sleeps until something changes after `view`, `timeout_ns` at most.
  void wait_for_change(const BlockView& view, std::int64_t timeout_ns) const;

 private:
  struct Mapping;
  BlockClient(pid_t pid, int fd, std::unique_ptr<Mapping> mapping);
  base::Status check_identity() const;

  pid_t pid_;
  int fd_;  // everything is read and written through it: a page that was cut away is an error then
  std::unique_ptr<Mapping> mapping_;  // for the futexes alone
};

}  // namespace gpuidle::control
