// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/injector.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <type_traits>

#include "tools/gpuidle/inject/borrowed_region.h"
#include "tools/gpuidle/inject/borrowed_thread.h"
#include "tools/gpuidle/inject/refusal.h"
#include "tools/gpuidle/inject/target_layout.h"
#include "tools/gpuidle/inject/target_memory.h"

namespace gpuidle::cli {
namespace {

using base::Result;
using base::Status;
using base::StatusCode;

// What the first stop leaves in the process for the second.
struct Prepared {
  std::uint64_t region = 0;
  int descriptor = -1;  // of the memory file, in the process; -1 = it could not make one
};

Status failed(const ProcessFacts& process, const std::string& what) {
  return {StatusCode::unavailable, "cannot " + what + " in " + process.label()};
}

bool is_error(std::int64_t result) { return result < 0 && result > -4096; }

// Copies the library; 0 or errno.
int copy_file(const std::string& from, int to) {
  const int source = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return errno;
  struct stat facts {};
  int reason = fstat(source, &facts) == 0 ? 0 : errno;
  const void* bytes = MAP_FAILED;
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (reason == 0) bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, source, 0);
  if (reason == 0 && bytes == MAP_FAILED) reason = errno;
  for (std::size_t done = 0; reason == 0 && done < size;) {
    const ssize_t written = write(to, static_cast<const char*>(bytes) + done, size - done);
    if (written <= 0 && errno != EINTR) reason = errno;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  if (bytes != MAP_FAILED) munmap(const_cast<void*>(bytes), size);
  close(source);
  return reason;
}

// The loader takes a path that it knows for the library that it knows, and descriptors are used
// again: each path is written differently, by the number of its slashes.
std::string memory_file_path(const std::string& descriptor) {
  constexpr std::int64_t kForms = 997;
  return "/proc/self/fd" + std::string(static_cast<std::size_t>(1 + steady_ns() % kForms), '/') +
         descriptor;
}

// A copy that the process can open by a path of its own; removed when it has been opened.
class LibraryCopy {
 public:
  LibraryCopy(const ProcessFacts& process, const std::string& library) {
    inner_ =
        "/tmp/libgpuidle-" + std::to_string(process.pid) + "-" + std::to_string(getpid()) + ".so";
    outer_ = "/proc/" + std::to_string(process.pid) + "/root" + inner_;
    const int fd = open(outer_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
      reason_ = errno;
      return;
    }
    if (fchown(fd, process.user, static_cast<gid_t>(-1)) != 0) reason_ = errno;
    if (reason_ == 0) reason_ = copy_file(library, fd);
    close(fd);
  }
  ~LibraryCopy() { unlink(outer_.c_str()); }
  LibraryCopy(const LibraryCopy&) = delete;
  LibraryCopy& operator=(const LibraryCopy&) = delete;
  const std::string& path() const { return inner_; }
  int reason() const { return reason_; }

 private:
  std::string inner_;
  std::string outer_;
  int reason_ = 0;
};

class Injector {
 public:
  Injector(const ProcessFacts& process, const std::string& library)
      : process_(process), library_(library), memory_(process.pid) {}

  Result<Injection> run() {
    const std::int64_t begin_ns = steady_ns();
    Result<TargetLayout> layout = read_layout(memory_, process_);
    if (!layout.ok()) return layout.status();
    layout_ = layout.take();
    Result<Prepared> prepared = prepare();
    if (!prepared.ok()) return prepared.status();
    const Status status = fill_and_open(prepared.value());
    if (!status.ok()) return status;
    injection_.all_ns = steady_ns() - begin_ns;
    return injection_;
  }

 private:
  // First stop: memory and a file in memory, by system calls alone.
  Result<Prepared> prepare() {
    BorrowedThread thread(process_, memory_, layout_);
    if (Status status = thread.borrow(&injection_.probes); !status.ok()) return status;
    Prepared prepared;
    const Status status = prepare_with(thread, &prepared);
    const std::int64_t began_ns = thread.stopped_at_ns();
    if (!thread.give_back()) return failed(process_, "put a thread back");
    injection_.stopped_ns = steady_ns() - began_ns;
    if (!status.ok()) return status;
    return prepared;
  }

  Status prepare_with(BorrowedThread& thread, Prepared* prepared) {
    Result<std::int64_t> mapped =
        thread.system_call(SYS_mmap, 0, kRegionBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, static_cast<std::uint64_t>(-1), 0);
    if (!mapped.ok()) return mapped.status();
    if (is_error(mapped.value())) return failed(process_, "map memory");
    prepared->region = static_cast<std::uint64_t>(mapped.value());
    const BorrowedRegion region(memory_, prepared->region);
    const std::uint64_t name = region.write_code() ? region.write_text("libgpuidle.so") : 0;
    if (name == 0) return failed(process_, "write to memory");
    Result<std::int64_t> made =
        thread.system_call(SYS_mprotect, prepared->region, kCodePageBytes, PROT_READ | PROT_EXEC);
    if (!made.ok()) return made.status();
    if (is_error(made.value())) {
      thread.system_call(SYS_munmap, prepared->region, kRegionBytes).ok();
      return {StatusCode::unavailable, process_.label() +
                                           " may not make memory executable (seccomp or SELinux: " +
                                           std::strerror(static_cast<int>(-made.value())) +
                                           "); start it with 'gpuidle run'"};
    }
    Result<std::int64_t> file = thread.system_call(SYS_memfd_create, name, MFD_CLOEXEC);
    if (!file.ok()) return file.status();
    prepared->descriptor = is_error(file.value()) ? -1 : static_cast<int>(file.value());
    return {};
  }

  Status fill_and_open(const Prepared& prepared) {
    std::string why_not_memory = "no file in memory could be made";
    if (prepared.descriptor >= 0) {
      // While the process runs: copying takes longer than all the rest.
      const std::string number = std::to_string(prepared.descriptor);
      const std::string there = "/proc/" + std::to_string(process_.pid) + "/fd/" + number;
      const int fd = open(there.c_str(), O_WRONLY | O_CLOEXEC);
      const int reason = fd < 0 ? errno : copy_file(library_, fd);
      if (fd >= 0) close(fd);
      if (reason == 0) {
        bool is_opened = false;
        Status status = open_library(prepared, memory_file_path(number), &is_opened);
        if (status.ok() || is_opened) return status;
        why_not_memory = status.message();
      } else {
        why_not_memory = std::strerror(reason);
      }
    }
    const LibraryCopy copy(process_, library_);
    if (copy.reason() != 0) {
      return {StatusCode::unavailable,
              "cannot copy libgpuidle.so to where " + process_.label() + " can open it (" +
                  copy.path() + ": " + std::strerror(copy.reason()) + "; " + why_not_memory + ")"};
    }
    bool is_opened = false;
    return open_library(prepared, copy.path(), &is_opened);
  }

  // Second stop: open the library and start its thread.
  Status open_library(const Prepared& prepared, const std::string& path, bool* is_opened) {
    const BorrowedRegion region(memory_, prepared.region);
    BorrowedThread thread(process_, memory_, layout_);
    if (Status status = thread.borrow(&injection_.probes); !status.ok()) return status;
    injection_.tid = thread.tid();
    if (!region.write_journal(thread.tid(), thread.context())) {
      return failed(process_, "note what its thread was doing");
    }
    const Status status = open_with(thread, region, path, is_opened);
    if (status.ok()) clean_up(thread, prepared);
    const std::int64_t began_ns = thread.stopped_at_ns();
    if (!thread.give_back()) return status.ok() ? failed(process_, "put a thread back") : status;
    injection_.stopped_ns = std::max(injection_.stopped_ns, steady_ns() - began_ns);
    if (!status.ok()) region.clear_journal();
    return status;
  }

  Status open_with(BorrowedThread& thread, const BorrowedRegion& region, const std::string& path,
                   bool* is_opened) {
    if (Status status = thread.keep_errno(region); !status.ok()) return status;
    const std::uint64_t path_at = region.write_text(path);
    if (path_at == 0) return failed(process_, "write to memory");
    Result<std::uint64_t> handle =
        thread.call(region, layout_.open_library, path_at, RTLD_NOW | layout_.open_flags);
    if (!handle.ok()) return handle.status();
    if (handle.value() == 0) return why_not_opened(thread, region, path);
    *is_opened = true;
    const std::uint64_t name_at = region.write_text("gpuidle_boot");
    Result<std::uint64_t> boot = thread.call(region, layout_.find_symbol, handle.value(), name_at);
    if (!boot.ok()) return boot.status();
    if (boot.value() == 0) {
      return {StatusCode::unavailable, library_ + " is of another version: it has no gpuidle_boot"};
    }
    Result<std::uint64_t> started = thread.call(region, boot.value(), 0, 0);
    if (!started.ok()) return started.status();
    if (static_cast<std::uint32_t>(started.value()) != 0) {
      return failed(process_, "start the recorder's thread");
    }
    return {};
  }

  Status why_not_opened(BorrowedThread& thread, const BorrowedRegion& region,
                        const std::string& path) {
    std::string why = "no reason is given";
    if (layout_.last_error != 0) {
      Result<std::uint64_t> text = thread.call(region, layout_.last_error, 0, 0);
      if (text.ok() && text.value() != 0) why = memory_.text(text.value(), 512);
    }
    return {StatusCode::unavailable, process_.label() + " cannot open " + path + ": " + why};
  }

  // What fails here costs the process 256 KiB or a descriptor, and is no reason to fail.
  void clean_up(BorrowedThread& thread, const Prepared& prepared) {
    if (prepared.descriptor >= 0) {
      thread.system_call(SYS_close, static_cast<std::uint64_t>(prepared.descriptor)).ok();
    }
    thread.system_call(SYS_munmap, prepared.region, kRegionBytes).ok();
  }

  const ProcessFacts& process_;
  const std::string& library_;
  const TargetMemory memory_;
  TargetLayout layout_;
  Injection injection_;
};

Result<bool> put_back(const ProcessFacts& process) {
  const TargetMemory memory(process.pid);
  const std::optional<BorrowedRegion> region = BorrowedRegion::find(memory, process);
  if (!region.has_value()) return false;
  ThreadContext context;
  const pid_t tid = region->read_journal(&context);
  if (tid == 0) return false;
  constexpr std::int64_t kPatience_ns = 10'000'000'000;
  const std::int64_t deadline_ns = steady_ns() + kPatience_ns;
  std::uint64_t ignored = 0;
  while (!region->is_call_done(&ignored)) {  // the thread is inside the call still
    if (steady_ns() > deadline_ns) return failed(process, "see the end of the call");
    const timespec time{0, 10'000'000};
    nanosleep(&time, nullptr);
  }
  TracedThread thread;
  int error = 0;
  if (thread.stop(tid, 1'000'000'000, &error) != StopResult::stopped) {
    return error != 0 ? explain_seize_failure(process, error)
                      : failed(process, "stop thread " + std::to_string(tid));
  }
  const bool has_errno = put_errno_back(memory, context);
  const bool is_back = thread.restore(context) && has_errno && region->clear_journal();
  thread.release();
  if (!is_back) return failed(process, "put thread " + std::to_string(tid) + " back");
  return true;
}

// Runs `work` in a child that signals to us do not reach, in a session of its own, and brings back
// what it returns: a command that is interrupted or killed must not leave a thread borrowed.
template <typename Value>
Result<Value> in_protected_process(const std::function<Result<Value>()>& work) {
  static_assert(std::is_trivially_copyable_v<Value>);
  struct Outcome {
    StatusCode code = StatusCode::internal;
    Value value{};
    char message[768] = "the injector has ended without a result";
  } outcome;
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return Status(StatusCode::unavailable,
                  std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    Result<Value> result = work();
    outcome.code = result.status().code();
    if (result.ok()) outcome.value = result.value();
    const std::string& message = result.status().message();
    const std::size_t length = std::min(message.size(), sizeof(outcome.message) - 1);
    std::memcpy(outcome.message, message.data(), length);
    outcome.message[length] = '\0';
    _exit(write(pipe_ends[1], &outcome, sizeof(outcome)) == sizeof(outcome) ? 0 : 1);
  }
  close(pipe_ends[1]);
  Outcome received;
  ssize_t got = -1;
  if (child > 0) {
    do {
      got = read(pipe_ends[0], &received, sizeof(received));
    } while (got < 0 && errno == EINTR);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  close(pipe_ends[0]);
  if (got != static_cast<ssize_t>(sizeof(received))) received = Outcome();
  if (received.code != StatusCode::ok) return Status(received.code, received.message);
  return received.value;
}

}  // namespace

Result<Injection> inject(const ProcessFacts& process, const std::string& library) {
  if (Status status = refuse_injection(process); !status.ok()) return status;
  return in_protected_process<Injection>([&]() -> Result<Injection> {
    if (Result<bool> repaired = put_back(process); !repaired.ok()) return repaired.status();
    return Injector(process, library).run();
  });
}

Result<bool> repair(const ProcessFacts& process) {
  if (Status status = refuse_any(process); !status.ok()) return status;
  return in_protected_process<bool>([&] { return put_back(process); });
}

}  // namespace gpuidle::cli
