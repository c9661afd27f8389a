// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/socket_peers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "libgpuidle/stacks/thread_look.h"

namespace gpuidle::stacks {
namespace {

using model::WaitTarget;

// A machine with more sockets than this much text has those behind it unnamed.
constexpr std::size_t kMaxTableBytes = std::size_t{1} << 20;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while ((at = line.find_first_not_of(' ', at)) != std::string_view::npos) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

template <typename Visit>
void for_each_line(std::string_view table, Visit visit) {
  while (!table.empty()) {
    const std::size_t end = std::min(table.find('\n'), table.size());
    if (visit(table.substr(0, end))) return;
    table.remove_prefix(std::min(end + 1, table.size()));
  }
}

std::string_view host_of(std::string_view address) {
  return address.substr(0, std::min(address.find(':'), address.size()));
}

// As the kernel prints them: words of four bytes, each in the machine's order.
bool is_loopback(std::string_view host) {
  constexpr std::string_view kIpv6 = "00000000000000000000000001000000";
  constexpr std::string_view kMappedPrefix = "0000000000000000FFFF0000";
  if (host.size() == kIpv6.size()) {
    if (host == kIpv6) return true;
    if (host.substr(0, kMappedPrefix.size()) != kMappedPrefix) return false;
    host.remove_prefix(kMappedPrefix.size());
  }
  return host.size() == 8 && host.substr(6) == "7F";
}

bool is_unset(std::string_view host) {
  return host.find_first_not_of('0') == std::string_view::npos;
}

// The words of the line with this inode in column `column`; empty if there is none.
std::vector<std::string_view> row_of(std::string_view table, std::size_t column,
                                     std::uint64_t inode) {
  const std::string wanted = std::to_string(inode);
  std::vector<std::string_view> row;
  for_each_line(table, [&](std::string_view line) {
    if (line.find(wanted) == std::string_view::npos) return false;
    std::vector<std::string_view> words = words_of(line);
    if (words.size() <= column || words[column] != wanted) return false;
    row = std::move(words);
    return true;
  });
  return row;
}

std::string read_table(const char* name) {
  ProcFolder root;
  root.path[0] = '\0';
  std::string text(kMaxTableBytes, '\0');
  text.resize(read_proc(root, name, text.data(), text.size()));
  return text;
}

}  // namespace

WaitTarget find_internet_peer(std::string_view table, std::uint64_t inode) {
  constexpr std::size_t kLocal = 1, kRemote = 2, kInode = 9;
  const std::vector<std::string_view> row = row_of(table, kInode, inode);
  if (row.empty()) return WaitTarget::unknown;
  const std::string_view remote = host_of(row[kRemote]);
  // A socket that listens waits for whoever may come.
  if (is_unset(remote)) return WaitTarget::socket;
  const bool is_here = is_loopback(remote) || remote == host_of(row[kLocal]);
  return is_here ? WaitTarget::local_socket : WaitTarget::external_socket;
}

WaitTarget find_unix_peer(std::string_view table, std::uint64_t inode) {
  constexpr std::size_t kInode = 6;
  return row_of(table, kInode, inode).empty() ? WaitTarget::unknown : WaitTarget::local_socket;
}

WaitTarget SocketPeers::kind_of(std::uint64_t inode) {
  Known& known = known_[inode % known_.size()];
  if (known.inode == inode) return known.kind;
  WaitTarget kind = find_unix_peer(read_table("proc/self/net/unix"), inode);
  for (const char* name : {"tcp", "tcp6", "udp", "udp6"}) {
    if (kind != WaitTarget::unknown) break;
    kind = find_internet_peer(read_table((std::string("proc/self/net/") + name).c_str()), inode);
  }
  if (kind == WaitTarget::unknown) kind = WaitTarget::socket;
  known = {inode, kind};
  return kind;
}

}  // namespace gpuidle::stacks
