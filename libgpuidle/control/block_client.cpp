// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/control/block_client.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "libgpuidle/control/block_name.h"
#include "libgpuidle/control/shared_futex.h"

namespace gpuidle::control {
namespace {

namespace ipc = boost::interprocess;
using base::Status;
using base::StatusCode;

// An open file as Boost wants to see one: its own file_mapping follows links.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ipc::mapping_handle_t get_mapping_handle() const { return {fd_, false}; }
  ipc::mode_t get_mode() const { return ipc::read_write; }

 private:
  int fd_;
};

// A field of a page that was read as bytes.
template <typename Value>
Value field(const unsigned char* page, std::size_t offset) {
  Value value;
  std::memcpy(&value, page + offset, sizeof(value));
  return value;
}
#define GPUIDLE_FIELD(type, page, name) field<type>(page, offsetof(ControlBlock, name))

// What another process wrote must not reach a terminal as it is.
std::string printable(const unsigned char* page, std::size_t offset, std::size_t capacity) {
  const char* text = reinterpret_cast<const char*>(page + offset);
  std::string result(text, strnlen(text, capacity));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

struct TargetIds {
  std::uint32_t inner_pid = 0;  // in its innermost pid namespace
  uid_t uid = 0;
};

std::optional<TargetIds> ids_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  TargetIds ids;
  bool has_uid = false;
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, 4, "Uid:") == 0) {
      unsigned real = 0;
      unsigned effective = 0;
      has_uid = std::sscanf(line.c_str() + 4, "%u %u", &real, &effective) == 2;
      ids.uid = effective;
    } else if (line.compare(0, 6, "NSpid:") == 0) {
      const std::size_t last = line.find_last_of(" \t");
      ids.inner_pid = static_cast<std::uint32_t>(std::strtoul(line.c_str() + last, nullptr, 10));
    }
  }
  if (!has_uid) return std::nullopt;
  if (ids.inner_pid == 0) ids.inner_pid = static_cast<std::uint32_t>(pid);
  return ids;
}

Status not_found(pid_t pid) {
  return {StatusCode::not_found,
          "process " + std::to_string(pid) + " has no control block of the recorder"};
}

Status damaged(pid_t pid, const std::string& what) {
  return {StatusCode::corrupt,
          "the control block of process " + std::to_string(pid) + " " + what + "; it is not used"};
}

// Opens the block by what only its own process decides: number and namespace. The user id in the
// name is the one inside a user namespace, so the file's owner is compared instead.
base::Result<int> open_block_of(pid_t pid, const TargetIds& ids) {
  const std::string process = std::to_string(pid);
  const std::string folder = "/proc/" + process + "/root/dev/shm";
  const auto its_namespace = pid_namespace(process);
  DIR* entries = opendir(folder.c_str());
  if (!its_namespace.has_value() || entries == nullptr) {
    const int reason = errno;
    if (entries != nullptr) closedir(entries);
    if (reason != EACCES && reason != EPERM) return not_found(pid);
    return Status(
        StatusCode::permission_denied,
        "process " + process + " belongs to another user (" + std::strerror(reason) + ")");
  }
  int fd = -1;
  int reason = ENOENT;
  while (const dirent* entry = readdir(entries)) {
    const auto name = BlockName::parse(entry->d_name);
    if (!name.has_value() || name->pid != ids.inner_pid || name->pid_namespace != *its_namespace) {
      continue;
    }
    fd = open_block(folder, entry->d_name, ids.uid);
    if (fd >= 0) break;
    reason = errno;
  }
  closedir(entries);
  if (fd >= 0) return fd;
  if (reason == ENOENT) return not_found(pid);
  if (reason == EPERM) return damaged(pid, "belongs to another user than the process");
  if (reason == ELOOP) return damaged(pid, "is a link");
  if (reason == EBADMSG || reason == EISDIR || reason == ENXIO) {
    return damaged(pid, "is not a file of " + std::to_string(kBlockBytes) + " bytes");
  }
  return Status(StatusCode::permission_denied, "cannot open the control block of process " +
                                                   process + ": " + std::strerror(reason));
}

DeviceTotals device_totals(const unsigned char* page, std::size_t index) {
  const unsigned char* at = page + offsetof(ControlBlock, devices) + index * sizeof(DeviceCounters);
  DeviceTotals totals;
  totals.device = field<std::uint32_t>(at, offsetof(DeviceCounters, device));
  totals.busy_ns = field<std::int64_t>(at, offsetof(DeviceCounters, busy_ns));
  totals.idle_ns = field<std::int64_t>(at, offsetof(DeviceCounters, idle_ns));
  totals.gaps = field<std::uint64_t>(at, offsetof(DeviceCounters, gaps));
  return totals;
}

// False: contradicts itself.
bool read_counters(const unsigned char* page, BlockView& view) {
  Counters& counters = view.counters;
  counters.counted_ns = GPUIDLE_FIELD(std::int64_t, page, counted_ns);
  counters.calls = GPUIDLE_FIELD(std::uint64_t, page, calls);
  counters.activities = GPUIDLE_FIELD(std::uint64_t, page, activities);
  counters.losses = GPUIDLE_FIELD(std::uint64_t, page, losses);
  counters.file_bytes = GPUIDLE_FIELD(std::uint64_t, page, file_bytes);
  const auto count = GPUIDLE_FIELD(std::uint32_t, page, device_count);
  if (count > kMaxDevices) return false;
  constexpr std::int64_t kLongest_ns = std::int64_t{1} << 60;  // 36 years; sums stay in range
  for (std::size_t i = 0; i < count; ++i) {
    const DeviceTotals totals = device_totals(page, i);
    if (totals.busy_ns < 0 || totals.busy_ns > kLongest_ns) return false;
    if (totals.idle_ns < 0 || totals.idle_ns > kLongest_ns) return false;
    view.devices.push_back(totals);
  }
  counters.devices = view.devices.data();
  counters.device_count = view.devices.size();
  return true;
}

}  // namespace

struct BlockClient::Mapping {
  explicit Mapping(int fd) : region(OpenFile(fd), ipc::read_write, 0, kBlockBytes) {}
  const ControlBlock& block() const { return *static_cast<ControlBlock*>(region.get_address()); }
  ipc::mapped_region region;
};

BlockClient::BlockClient(pid_t pid, int fd, std::unique_ptr<Mapping> mapping)
    : pid_(pid), fd_(fd), mapping_(std::move(mapping)) {}

BlockClient::BlockClient(BlockClient&& other) noexcept
    : pid_(other.pid_), fd_(other.fd_), mapping_(std::move(other.mapping_)) {
  other.fd_ = -1;
}

BlockClient::~BlockClient() {
  if (fd_ >= 0) close(fd_);
}

base::Result<BlockClient> BlockClient::open(pid_t pid) {
  const auto ids = ids_of(pid);
  if (!ids.has_value()) return not_found(pid);
  base::Result<int> fd = open_block_of(pid, *ids);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<Mapping> mapping;
  try {
    mapping = std::make_unique<Mapping>(fd.value());
  } catch (const ipc::interprocess_exception& error) {
    close(fd.value());
    return Status(StatusCode::unavailable, "cannot map the control block of process " +
                                               std::to_string(pid) + ": " + error.what());
  }
  BlockClient client(pid, fd.value(), std::move(mapping));
  if (Status status = client.check_identity(); !status.ok()) return status;
  if (base::Result<BlockView> view = client.view(); !view.ok()) return view.status();
  return client;
}

Status BlockClient::check_identity() const {
  unsigned char page[kBlockBytes];
  if (pread(fd_, page, sizeof(page), 0) != sizeof(page)) return damaged(pid_, "was cut");
  if (GPUIDLE_FIELD(std::uint64_t, page, magic) != kMagic) {
    return damaged(pid_, "does not begin like one");
  }
  if (GPUIDLE_FIELD(std::uint32_t, page, layout_version) != kLayoutVersion ||
      GPUIDLE_FIELD(std::uint32_t, page, bytes) != kBlockBytes) {
    return {StatusCode::unsupported_version,
            "the recorder in process " + std::to_string(pid_) + " is version " +
                printable(page, offsetof(ControlBlock, tool_version), 16) +
                ", whose control block this command does not know; use the gpuidle command of "
                "that version"};
  }
  const auto ticks = start_ticks(std::to_string(pid_));
  if (!ticks.has_value() || GPUIDLE_FIELD(std::uint64_t, page, start_ticks) != *ticks) {
    return not_found(pid_);  // of an earlier process with this number
  }
  return {};
}

base::Result<BlockView> BlockClient::view() const {
  constexpr int kTries = 8;
  unsigned char page[kBlockBytes];
  for (int i = 0; i < kTries; ++i) {
    if (pread(fd_, page, sizeof(page), 0) != sizeof(page)) return damaged(pid_, "was cut");
    // Read again if the recorder was writing meanwhile; after some tries a mixed picture must do,
    // which is checked like any other.
    std::uint32_t counting = 0;
    if (pread(fd_, &counting, sizeof(counting), offsetof(ControlBlock, counting)) < 4) continue;
    if (counting % 2 == 0 && counting == GPUIDLE_FIELD(std::uint32_t, page, counting)) break;
  }
  BlockView view;
  view.state = GPUIDLE_FIELD(State, page, state);
  view.started_by = GPUIDLE_FIELD(StartedBy, page, started_by);
  view.answer = GPUIDLE_FIELD(Answer, page, answer);
  if (view.state > State::draining || view.started_by > StartedBy::request ||
      view.answer > Answer::not_recording || !read_counters(page, view)) {
    return damaged(pid_, "holds values that no recorder writes");
  }
  view.changes = GPUIDLE_FIELD(std::uint32_t, page, changes);
  view.answered = GPUIDLE_FIELD(std::uint32_t, page, answered);
  view.recordings = GPUIDLE_FIELD(std::uint32_t, page, recordings);
  view.recording_ns = GPUIDLE_FIELD(std::int64_t, page, recording_ns);
  view.left_ns = GPUIDLE_FIELD(std::int64_t, page, left_ns);
  std::memcpy(view.own_threads.data(), page + offsetof(ControlBlock, own_threads),
              sizeof(view.own_threads));
  view.tool_version = printable(page, offsetof(ControlBlock, tool_version), 16);
  view.text = printable(page, offsetof(ControlBlock, text), kMaxTextBytes);
  view.trace_path = printable(page, offsetof(ControlBlock, trace_path), kMaxPathBytes);
  return view;
}

base::Result<std::uint32_t> BlockClient::send(const Request& request) const {
  const auto put = [this](const void* value, std::size_t bytes, std::size_t offset) {
    return pwrite(fd_, value, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
  if (request.output.size() >= kMaxPathBytes) {
    return Status(StatusCode::invalid_argument,
                  "the output pattern has " + std::to_string(request.output.size()) +
                      " bytes, at most " + std::to_string(kMaxPathBytes - 1) + " can be sent");
  }
  char output[kMaxPathBytes] = "";
  std::memcpy(output, request.output.data(), request.output.size());
  const std::uint32_t has_lease = request.has_lease ? 1 : 0;
  std::uint32_t number = 0;
  const bool is_sent =
      pread(fd_, &number, sizeof(number), offsetof(ControlBlock, requested)) == sizeof(number) &&
      put(&request.command, sizeof(request.command), offsetof(ControlBlock, command)) &&
      put(&has_lease, sizeof(has_lease), offsetof(ControlBlock, has_lease)) &&
      put(&request.duration_ns, sizeof(request.duration_ns), offsetof(ControlBlock, duration_ns)) &&
      put(output, sizeof(output), offsetof(ControlBlock, output)) &&
      put(&++number, sizeof(number), offsetof(ControlBlock, requested));
  if (!is_sent) return damaged(pid_, "cannot be written");
  shared_futex_wake(mapping_->block().requested);
  return number;
}

void BlockClient::beat() const {
  std::uint32_t beats = 0;
  constexpr off_t kOffset = offsetof(ControlBlock, beats);
  if (pread(fd_, &beats, sizeof(beats), kOffset) != sizeof(beats)) return;
  ++beats;
  // What cannot be written is seen by the recorder as a client that has died, which is right.
  if (pwrite(fd_, &beats, sizeof(beats), kOffset) != sizeof(beats)) return;
}

void BlockClient::wait_for_change(const BlockView& view, std::int64_t timeout_ns) const {
  shared_futex_wait(mapping_->block().changes, view.changes, timeout_ns);
}

}  // namespace gpuidle::control
