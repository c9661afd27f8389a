// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/control/block_name.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libgpuidle/control/control_block.h"

namespace gpuidle::control {
namespace {

constexpr char kPrefix[] = "gpuidle.";
constexpr char kFolder[] = "/dev/shm";

bool parse_number(const char** at, std::uint64_t* number) {
  if (**at < '0' || **at > '9') return false;
  char* end = nullptr;
  errno = 0;
  *number = std::strtoull(*at, &end, 10);
  *at = end;
  return errno == 0;
}

std::string read_start(const std::string& path) {
  char text[1024];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t length = read(fd, text, sizeof(text));
  close(fd);
  return {text, length > 0 ? static_cast<std::size_t>(length) : 0};
}

// What a block says of its process, whose number lives on. A block that is still being made has no
// magic and is nobody's to remove.
bool is_of_an_earlier_process(const std::string& name, std::uint64_t now_ticks) {
  const int fd = open_block(kFolder, name, geteuid());
  if (fd < 0) return false;
  std::uint64_t magic = 0;
  std::uint64_t ticks = 0;
  const bool is_read =
      pread(fd, &magic, sizeof(magic), offsetof(ControlBlock, magic)) == sizeof(magic) &&
      pread(fd, &ticks, sizeof(ticks), offsetof(ControlBlock, start_ticks)) == sizeof(ticks);
  close(fd);
  return is_read && magic == kMagic && ticks != now_ticks;
}

bool is_stale(const BlockName& name, const std::string& text) {
  if (kill(static_cast<pid_t>(name.pid), 0) != 0 && errno == ESRCH) return true;
  const auto now_ticks = start_ticks(std::to_string(name.pid));
  return now_ticks.has_value() && is_of_an_earlier_process(text, *now_ticks);
}

}  // namespace

std::string BlockName::text() const {
  return kPrefix + std::to_string(uid) + "." + std::to_string(pid) + "." +
         std::to_string(pid_namespace);
}

std::optional<BlockName> BlockName::parse(const std::string& text) {
  if (text.compare(0, sizeof(kPrefix) - 1, kPrefix) != 0) return std::nullopt;
  const char* at = text.c_str() + sizeof(kPrefix) - 1;
  std::uint64_t numbers[3];
  for (int i = 0; i < 3; ++i) {
    if (i != 0 && *at++ != '.') return std::nullopt;
    if (!parse_number(&at, &numbers[i])) return std::nullopt;
  }
  if (*at != '\0' || numbers[0] > UINT32_MAX || numbers[1] > INT32_MAX || numbers[1] == 0) {
    return std::nullopt;
  }
  return BlockName{static_cast<std::uint32_t>(numbers[0]), static_cast<std::uint32_t>(numbers[1]),
                   numbers[2]};
}

std::optional<std::uint64_t> pid_namespace(const std::string& process) {
  char text[64];
  const ssize_t length = readlink(("/proc/" + process + "/ns/pid").c_str(), text, sizeof(text) - 1);
  if (length <= 0) return std::nullopt;
  text[length] = '\0';
  const char* at = std::strchr(text, '[');
  std::uint64_t inode = 0;
  if (at == nullptr || !parse_number(&++at, &inode)) return std::nullopt;
  return inode;
}

std::optional<std::uint64_t> start_ticks(const std::string& process) {
  // The name in field 2 may hold spaces and brackets, so fields are counted from the last ')'.
  const std::string stat = read_start("/proc/" + process + "/stat");
  std::size_t at = stat.rfind(')');
  for (int field = 3; field <= 22; ++field) {
    if (at == std::string::npos) return std::nullopt;
    at = stat.find(' ', at + 1);
  }
  if (at == std::string::npos) return std::nullopt;
  const char* number = stat.c_str() + at + 1;
  std::uint64_t ticks = 0;
  if (!parse_number(&number, &ticks)) return std::nullopt;
  return ticks;
}

int open_block(const std::string& folder, const std::string& name, uid_t owner) {
  // O_NONBLOCK: what lies there may be a pipe.
  const int fd =
      open((folder + "/" + name).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -1;
  struct stat facts {};
  int reason = fstat(fd, &facts) == 0 ? 0 : errno;
  if (reason == 0 && facts.st_uid != owner) reason = EPERM;
  if (reason == 0 && (!S_ISREG(facts.st_mode) || facts.st_size != kBlockBytes)) reason = EBADMSG;
  if (reason == 0) return fd;
  close(fd);
  errno = reason;
  return -1;
}

int remove_stale_blocks() {
  constexpr int kMaxFiles = 4096;
  const auto own_namespace = pid_namespace("self");
  DIR* folder = own_namespace.has_value() ? opendir(kFolder) : nullptr;
  if (folder == nullptr) return 0;
  int removed = 0;
  int looked_at = 0;
  while (const dirent* entry = readdir(folder)) {
    if (++looked_at > kMaxFiles) break;
    const std::string text = entry->d_name;
    const auto name = BlockName::parse(text);
    if (!name.has_value() || name->uid != geteuid()) continue;
    if (name->pid_namespace != *own_namespace || !is_stale(*name, text)) continue;
    if (unlinkat(dirfd(folder), text.c_str(), 0) == 0) ++removed;
  }
  closedir(folder);
  return removed;
}

}  // namespace gpuidle::control
