// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/wait_target.h"

#include <limits.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libgpuidle/record/host_clock.h"

namespace gpuidle::stacks {
namespace {

using model::WaitTarget;
using Kind = CallRule::Kind;

// Descriptors of one wait that are looked at.
constexpr std::size_t kMaxDescriptors = 16;

struct CallRow {
  int system_call;
  CallRule rule;
};
constexpr CallRule descriptor_in(std::uint8_t argument) {
  return {Kind::descriptor, argument, WaitTarget::unknown};
}
constexpr CallRule path_in(std::uint8_t argument) {
  return {Kind::path, argument, WaitTarget::unknown};
}
constexpr CallRule always(WaitTarget target) { return {Kind::known, 0, target}; }

#if defined(__x86_64__)
constexpr CallRow kCalls[] = {
    {SYS_futex, always(WaitTarget::lock)},
    {SYS_semop, always(WaitTarget::lock)},
    {SYS_semtimedop, always(WaitTarget::lock)},
    {SYS_nanosleep, always(WaitTarget::sleep)},
    {SYS_clock_nanosleep, always(WaitTarget::sleep)},
    {SYS_wait4, always(WaitTarget::child_process)},
    {SYS_waitid, always(WaitTarget::child_process)},
    {SYS_pause, always(WaitTarget::event)},
    {SYS_rt_sigsuspend, always(WaitTarget::event)},
    {SYS_rt_sigtimedwait, always(WaitTarget::event)},
    {SYS_msync, always(WaitTarget::file)},
    {SYS_sync, always(WaitTarget::file)},
    {SYS_io_getevents, always(WaitTarget::file)},
    {SYS_read, descriptor_in(0)},
    {SYS_readv, descriptor_in(0)},
    {SYS_pread64, descriptor_in(0)},
    {SYS_preadv, descriptor_in(0)},
    {SYS_preadv2, descriptor_in(0)},
    {SYS_write, descriptor_in(0)},
    {SYS_writev, descriptor_in(0)},
    {SYS_pwrite64, descriptor_in(0)},
    {SYS_pwritev, descriptor_in(0)},
    {SYS_pwritev2, descriptor_in(0)},
    {SYS_recvfrom, descriptor_in(0)},
    {SYS_recvmsg, descriptor_in(0)},
    {SYS_recvmmsg, descriptor_in(0)},
    {SYS_sendto, descriptor_in(0)},
    {SYS_sendmsg, descriptor_in(0)},
    {SYS_sendmmsg, descriptor_in(0)},
    {SYS_accept, descriptor_in(0)},
    {SYS_accept4, descriptor_in(0)},
    {SYS_connect, descriptor_in(0)},
    {SYS_fsync, descriptor_in(0)},
    {SYS_fdatasync, descriptor_in(0)},
    {SYS_syncfs, descriptor_in(0)},
    {SYS_sync_file_range, descriptor_in(0)},
    {SYS_ftruncate, descriptor_in(0)},
    {SYS_fallocate, descriptor_in(0)},
    {SYS_getdents64, descriptor_in(0)},
    {SYS_fstat, descriptor_in(0)},
    {SYS_lseek, descriptor_in(0)},
    {SYS_flock, descriptor_in(0)},
    {SYS_fcntl, descriptor_in(0)},
    {SYS_ioctl, descriptor_in(0)},
    {SYS_close, descriptor_in(0)},
    {SYS_readahead, descriptor_in(0)},
    {SYS_sendfile, descriptor_in(1)},
    {SYS_splice, descriptor_in(0)},
    {SYS_copy_file_range, descriptor_in(0)},
    {SYS_mmap, descriptor_in(4)},
    {SYS_open, path_in(0)},
    {SYS_openat, path_in(1)},
    {SYS_stat, path_in(0)},
    {SYS_lstat, path_in(0)},
    {SYS_newfstatat, path_in(1)},
    {SYS_statx, path_in(1)},
    {SYS_access, path_in(0)},
    {SYS_readlink, path_in(0)},
    {SYS_unlink, path_in(0)},
    {SYS_unlinkat, path_in(1)},
    {SYS_rename, path_in(0)},
    {SYS_mkdir, path_in(0)},
    {SYS_truncate, path_in(0)},
    {SYS_poll, {Kind::poll, 0, WaitTarget::unknown}},
    {SYS_ppoll, {Kind::poll, 0, WaitTarget::unknown}},
    {SYS_select, {Kind::select, 0, WaitTarget::unknown}},
    {SYS_pselect6, {Kind::select, 0, WaitTarget::unknown}},
    {SYS_epoll_wait, {Kind::epoll, 0, WaitTarget::unknown}},
    {SYS_epoll_pwait, {Kind::epoll, 0, WaitTarget::unknown}},
};
#else
constexpr CallRow kCalls[] = {{-1, {}}};
#endif

// Near to far; what is not in it explains nothing.
constexpr WaitTarget kByDistance[] = {
    WaitTarget::unknown,      WaitTarget::event,           WaitTarget::device,     WaitTarget::pipe,
    WaitTarget::local_socket, WaitTarget::socket,          WaitTarget::local_file, WaitTarget::file,
    WaitTarget::network_file, WaitTarget::external_socket,
};

std::size_t read_memory(int pid, std::uint64_t address, void* out, std::size_t size) {
  iovec local{out, size};
  iovec remote{reinterpret_cast<void*>(address), size};
  const ssize_t count = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

std::string fdinfo_of(const ProcFolder& folder, std::uint64_t fd) {
  char name[40];
  std::snprintf(name, sizeof(name), "fdinfo/%llu", static_cast<unsigned long long>(fd));
  std::string text(4096, '\0');
  text.resize(read_proc(folder, name, text.data(), text.size()));
  return text;
}

std::uint64_t number_behind(const std::string& text, const char* word) {
  const std::size_t at = text.find(word);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + std::strlen(word), nullptr, 10);
}

}  // namespace

CallRule rule_of_call(int system_call) {
  for (const CallRow& row : kCalls) {
    if (row.system_call == system_call) return row.rule;
  }
  return {};
}

WaitTarget farther(WaitTarget a, WaitTarget b) {
  const auto distance = [](WaitTarget target) {
    return std::find(std::begin(kByDistance), std::end(kByDistance), target) -
           std::begin(kByDistance);
  };
  const auto unlisted = static_cast<std::ptrdiff_t>(std::size(kByDistance));
  const std::ptrdiff_t of_a = distance(a) == unlisted ? 0 : distance(a);
  const std::ptrdiff_t of_b = distance(b) == unlisted ? 0 : distance(b);
  return of_b > of_a ? b : a;
}

WaitTarget WaitTargets::find(const ProcFolder& folder, const ThreadLook& look) {
  const CallState& call = look.call;
  if (!call.is_known || call.is_running) return WaitTarget::unknown;
  if (call.number < 0) {
    return look.status.state == 'D' ? WaitTarget::page_fault : WaitTarget::unknown;
  }
  const CallRule rule = rule_of_call(call.number);
  switch (rule.kind) {
    case Kind::none:
      break;
    case Kind::known:
      return rule.target;
    case Kind::descriptor:
      return kind_of_descriptor(folder, call.arguments[rule.argument]);
    case Kind::path:
      return kind_of_path(folder, call.arguments[rule.argument]);
    case Kind::poll:
      return kind_of_poll(folder, call);
    case Kind::select:
      return kind_of_select(folder, call);
    case Kind::epoll:
      return kind_of_epoll(folder, call.arguments[0]);
  }
  return WaitTarget::unknown;
}

WaitTarget WaitTargets::kind_of_link(const std::string& link, const std::string& fdinfo) {
  const auto starts_with = [&link](const char* word) { return link.rfind(word, 0) == 0; };
  if (starts_with("pipe:")) return WaitTarget::pipe;
  if (starts_with("socket:[")) {
    return peers_.kind_of(std::strtoull(link.c_str() + std::strlen("socket:["), nullptr, 10));
  }
  if (starts_with("anon_inode:")) return WaitTarget::event;
  if (link.empty() || link[0] != '/') return WaitTarget::unknown;
  const int mount = static_cast<int>(number_behind(fdinfo, "mnt_id:"));
  if (!mounts_.has(mount)) mounts_.refresh(record::host_now_ns());
  if (starts_with("/dev/") && !starts_with("/dev/shm/")) return WaitTarget::device;
  return mounts_.kind_of_mount(mount);
}

WaitTarget WaitTargets::kind_of_descriptor(const ProcFolder& folder, std::uint64_t fd) {
  if (fd > INT_MAX) return WaitTarget::unknown;
  char path[96];
  std::snprintf(path, sizeof(path), "%s/fd/%llu", folder.path, static_cast<unsigned long long>(fd));
  char link[512];
  const ssize_t length = readlink(path, link, sizeof(link));
  if (length <= 0) return WaitTarget::unknown;
  const WaitTarget kind =
      kind_of_link(std::string(link, static_cast<std::size_t>(length)), fdinfo_of(folder, fd));
  // A named pipe looks like a file. Not asked for on other file systems: they may not answer.
  struct stat facts {};
  const bool is_fifo =
      kind == WaitTarget::local_file && stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode);
  return is_fifo ? WaitTarget::pipe : kind;
}

WaitTarget WaitTargets::kind_of_path(const ProcFolder& folder, std::uint64_t address) {
  char path[512];
  const std::size_t count = read_memory(folder.pid, address, path, sizeof(path));
  const std::size_t length = strnlen(path, count);
  if (length == 0) return WaitTarget::unknown;
  std::string text(path, length);
  if (text[0] != '/') {  // most often below the working folder
    char link[512];
    char cwd[96];
    std::snprintf(cwd, sizeof(cwd), "%s/cwd", folder.path);
    const ssize_t cwd_length = readlink(cwd, link, sizeof(link));
    if (cwd_length <= 0) return WaitTarget::file;
    text = std::string(link, static_cast<std::size_t>(cwd_length)) + "/" + text;
  }
  mounts_.refresh(record::host_now_ns());
  return mounts_.kind_of_path(text);
}

WaitTarget WaitTargets::kind_of_poll(const ProcFolder& folder, const CallState& call) {
  const std::uint64_t count = std::min<std::uint64_t>(call.arguments[1], kMaxDescriptors);
  if (count == 0) return WaitTarget::sleep;
  std::array<pollfd, kMaxDescriptors> polled{};
  const std::size_t bytes = count * sizeof(pollfd);
  if (read_memory(folder.pid, call.arguments[0], polled.data(), bytes) != bytes) {
    return WaitTarget::unknown;
  }
  WaitTarget target = WaitTarget::unknown;
  for (std::size_t i = 0; i < count; ++i) {
    if (polled[i].fd < 0) continue;
    target = farther(target, kind_of_descriptor(folder, static_cast<std::uint64_t>(polled[i].fd)));
  }
  return target;
}

WaitTarget WaitTargets::kind_of_select(const ProcFolder& folder, const CallState& call) {
  const std::uint64_t limit = std::min<std::uint64_t>(call.arguments[0], FD_SETSIZE);
  WaitTarget target = WaitTarget::unknown;
  std::size_t seen = 0;
  for (std::size_t set = 1; set <= 3; ++set) {
    const std::uint64_t address = call.arguments[set];
    std::array<unsigned char, FD_SETSIZE / 8> bits{};
    const std::size_t bytes = (limit + 7) / 8;
    if (address == 0 || read_memory(folder.pid, address, bits.data(), bytes) != bytes) continue;
    for (std::uint64_t fd = 0; fd < limit && seen < kMaxDescriptors; ++fd) {
      if ((bits[fd / 8] >> (fd % 8) & 1u) == 0) continue;
      ++seen;
      target = farther(target, kind_of_descriptor(folder, fd));
    }
  }
  return seen == 0 ? WaitTarget::sleep : target;
}

WaitTarget WaitTargets::kind_of_epoll(const ProcFolder& folder, std::uint64_t fd) {
  const std::string text = fdinfo_of(folder, fd);
  WaitTarget target = WaitTarget::event;
  std::size_t seen = 0;
  for (std::size_t at = text.find("tfd:"); at != std::string::npos && seen < kMaxDescriptors;
       at = text.find("tfd:", at + 1), ++seen) {
    const std::uint64_t watched = std::strtoull(text.c_str() + at + 4, nullptr, 10);
    target = farther(target, kind_of_descriptor(folder, watched));
  }
  return target;
}

}  // namespace gpuidle::stacks
