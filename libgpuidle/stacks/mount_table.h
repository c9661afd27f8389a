// SPDX-License-Identifier: Apache-2.0
//
// On which kind of file system a file lies: local, network, or one that may be either. By the
// mount's type alone, without touching the file system itself: a network mount whose server is gone
// would hold the caller up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libgpuidle/model/records.h"

namespace gpuidle::stacks {

/// WaitTarget::local_file, network_file or file. `type` as in mountinfo: "nfs4", "fuse.sshfs".
model::WaitTarget kind_of_file_system(std::string_view type);

/// Context: sampler.
class MountTable {
 public:
  /// Replaces the table by the text of a mountinfo file (proc(5)).
  void parse(std::string_view mountinfo);
  /// Reads this process's, at most once a second.
  void refresh(std::int64_t now_ns);

  /// WaitTarget::file if the mount is not in the table.
  model::WaitTarget kind_of_mount(int mount_id) const;
  /// Of an absolute path, by the longest mount point that it starts with.
  model::WaitTarget kind_of_path(std::string_view path) const;
  bool has(int mount_id) const;

 private:
  struct Mount {
    int id = 0;
    std::string point;
    model::WaitTarget kind = model::WaitTarget::file;
  };
  std::vector<Mount> mounts_;
  std::int64_t read_at_ns_ = 0;
};

}  // namespace gpuidle::stacks
