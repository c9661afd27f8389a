// SPDX-License-Identifier: Apache-2.0
//
// Whether the other end of a socket is on this machine, by the kernel's tables of sockets under
// /proc/net: nothing is asked of the socket itself, which belongs to the program.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "libgpuidle/model/records.h"

namespace gpuidle::stacks {

/// From the text of /proc/net/tcp, tcp6, udp or udp6: local_socket or external_socket;
/// unknown if `inode` is not in it.
model::WaitTarget find_internet_peer(std::string_view table, std::uint64_t inode);
/// From the text of /proc/net/unix: local_socket or unknown.
model::WaitTarget find_unix_peer(std::string_view table, std::uint64_t inode);

/// Remembers the last answers. Context: sampler.
class SocketPeers {
 public:
  /// local_socket, external_socket, or socket where the tables do not tell.
  model::WaitTarget kind_of(std::uint64_t inode);

 private:
  struct Known {
    std::uint64_t inode = 0;
    model::WaitTarget kind = model::WaitTarget::unknown;
  };
  std::array<Known, 64> known_{};
};

}  // namespace gpuidle::stacks
