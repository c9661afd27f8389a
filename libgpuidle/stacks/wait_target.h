// SPDX-License-Identifier: Apache-2.0
//
// What a thread that sleeps in a system call waits for: the call says it, or the descriptor or path
// that it was given. Fed by ThreadLook, feeds the samples.
#pragma once

#include <cstdint>
#include <string>

#include "libgpuidle/model/records.h"
#include "libgpuidle/stacks/mount_table.h"
#include "libgpuidle/stacks/socket_peers.h"
#include "libgpuidle/stacks/thread_look.h"

namespace gpuidle::stacks {

/// What a system call waits for, and which of its arguments says more.
struct CallRule {
  enum class Kind : std::uint8_t {
    none,        ///< not in the table
    known,       ///< always `target`
    descriptor,  ///< what the descriptor in `argument` is
    path,        ///< where the path in `argument` lies
    poll,        ///< any of an array of pollfd
    select,      ///< any of three sets of descriptors
    epoll,       ///< any that the epoll descriptor watches
  };
  Kind kind = Kind::none;
  std::uint8_t argument = 0;
  model::WaitTarget target = model::WaitTarget::unknown;
};
CallRule rule_of_call(int system_call);

/// Of several things a thread waits for at once, the one that explains most: the farthest.
model::WaitTarget farther(model::WaitTarget a, model::WaitTarget b);

/// Context: sampler; one user at a time.
class WaitTargets {
 public:
  /// unknown if the thread runs, or /proc does not tell. Reads nothing but /proc and, for paths and
  /// lists of descriptors, the memory of the waiting process.
  model::WaitTarget find(const ProcFolder& folder, const ThreadLook& look);

  /// What a descriptor is that links to `link` in /proc, as "pipe:[123]" or "/home/x".
  /// `fdinfo` is the text of its file in fdinfo.
  model::WaitTarget kind_of_link(const std::string& link, const std::string& fdinfo);

  MountTable& mounts() { return mounts_; }

 private:
  model::WaitTarget kind_of_descriptor(const ProcFolder& folder, std::uint64_t fd);
  model::WaitTarget kind_of_path(const ProcFolder& folder, std::uint64_t address);
  model::WaitTarget kind_of_poll(const ProcFolder& folder, const CallState& call);
  model::WaitTarget kind_of_select(const ProcFolder& folder, const CallState& call);
  model::WaitTarget kind_of_epoll(const ProcFolder& folder, std::uint64_t fd);

  MountTable mounts_;
  SocketPeers peers_;
};

}  // namespace gpuidle::stacks
