// SPDX-License-Identifier: Apache-2.0
//
// Whose block is whose: names in /dev/shm, and the facts of a process that tell it from a later one
// with the same number. Feeds BlockOwner and BlockClient.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gpuidle::control {

/// What a name says: "gpuidle.<uid>.<pid>.<pid namespace>". The namespace is there because
/// containers may share /dev/shm and not their process numbers.
struct BlockName {
  std::uint32_t uid = 0;  ///< as its process sees itself
  std::uint32_t pid = 0;
  std::uint64_t pid_namespace = 0;

  std::string text() const;  ///< without the leading slash
  static std::optional<BlockName> parse(const std::string& text);
};

/// Inode of the pid namespace of `process` ("self" or a number); nothing if /proc does not tell.
std::optional<std::uint64_t> pid_namespace(const std::string& process);

/// Field 22 of /proc/<process>/stat, the start of the process in ticks since boot.
std::optional<std::uint64_t> start_ticks(const std::string& process);

/// Opens `folder`/`name` without following a link there. Returns -1 with errno unless it is a
/// plain file of kBlockBytes that belongs to `owner`.
int open_block(const std::string& folder, const std::string& name, uid_t owner);

/// Removes blocks of this user in /dev/shm whose process is gone, killed before it could do so.
/// Returns how many. Context: control | tool. Looks at 4096 files at most.
int remove_stale_blocks();

}  // namespace gpuidle::control
