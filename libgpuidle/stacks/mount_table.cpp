// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/mount_table.h"

#include <algorithm>
#include <cstdlib>

#include "libgpuidle/stacks/thread_look.h"

namespace gpuidle::stacks {
namespace {

using model::WaitTarget;

constexpr std::string_view kLocal[] = {
    "ext2",    "ext3",    "ext4",     "xfs",       "btrfs",    "f2fs",   "zfs",   "tmpfs",
    "ramfs",   "rootfs",  "overlay",  "squashfs",  "vfat",     "exfat",  "ntfs3", "fuseblk",
    "iso9660", "udf",     "reiserfs", "jfs",       "bcachefs", "erofs",  "proc",  "sysfs",
    "cgroup",  "cgroup2", "devtmpfs", "hugetlbfs", "devpts",   "mqueue", "bpf",   "debugfs",
};
constexpr std::string_view kNetwork[] = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "fuse.ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "glusterfs",
    "fuse.glusterfs",
    "afs",
    "wekafs",
    "panfs",
    "orangefs",
    "pvfs2",
    "ocfs2",
    "gfs2",
    "fuse.sshfs",
    "fuse.s3fs",
    "fuse.gcsfuse",
    "fuse.goofys",
    "fuse.mountpoint-s3",
    "fuse.blobfuse2",
    "fuse.blobfuse",
    "fuse.juicefs",
    "fuse.rclone",
    "fuse.cvmfs2",
    "fuse.hdfs",
    "fuse.alluxio-fuse",
    "fuse.curlftpfs",
    "fuse.davfs",
    "davfs",
    "coda",
};

template <std::size_t kCount>
bool is_in(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string_view take_word(std::string_view* text) {
  const std::size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

// Blanks and backslashes are written as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      out.push_back(static_cast<char>(code));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

bool is_below(std::string_view path, std::string_view point) {
  if (point == "/") return true;
  return path.substr(0, point.size()) == point &&
         (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

WaitTarget kind_of_file_system(std::string_view type) {
  if (is_in(kNetwork, type)) return WaitTarget::network_file;
  return is_in(kLocal, type) ? WaitTarget::local_file : WaitTarget::file;
}

void MountTable::parse(std::string_view mountinfo) {
  mounts_.clear();
  while (!mountinfo.empty()) {
    const std::size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    std::string_view line = mountinfo.substr(0, end);
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    // id parent major:minor root point options optional... - type source options
    Mount mount;
    mount.id = std::atoi(std::string(take_word(&line)).c_str());
    for (int i = 0; i < 3; ++i) take_word(&line);
    mount.point = unescape(take_word(&line));
    const std::size_t type_at = line.find(" - ");
    if (type_at == std::string_view::npos) continue;
    line.remove_prefix(type_at + 3);
    mount.kind = kind_of_file_system(take_word(&line));
    mounts_.push_back(std::move(mount));
  }
}

void MountTable::refresh(std::int64_t now_ns) {
  constexpr std::int64_t kInterval_ns = 1'000'000'000;
  if (read_at_ns_ != 0 && now_ns - read_at_ns_ < kInterval_ns) return;
  read_at_ns_ = now_ns;
  ProcFolder self;
  self.path[0] = '\0';
  std::string text(256 * 1024, '\0');
  text.resize(read_proc(self, "proc/self/mountinfo", text.data(), text.size()));
  parse(text);
}

bool MountTable::has(int mount_id) const {
  return std::any_of(mounts_.begin(), mounts_.end(),
                     [&](const Mount& mount) { return mount.id == mount_id; });
}

WaitTarget MountTable::kind_of_mount(int mount_id) const {
  for (const Mount& mount : mounts_) {
    if (mount.id == mount_id) return mount.kind;
  }
  return WaitTarget::file;
}

WaitTarget MountTable::kind_of_path(std::string_view path) const {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts_) {
    // Of two at the same point the later one hides the earlier.
    if (is_below(path, mount.point) &&
        (best == nullptr || mount.point.size() >= best->point.size())) {
      best = &mount;
    }
  }
  return best == nullptr ? WaitTarget::file : best->kind;
}

}  // namespace gpuidle::stacks
