// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/borrowed_thread.h"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "tools/gpuidle/inject/refusal.h"
#include "tools/gpuidle/inject/safe_point.h"

namespace gpuidle::cli {
namespace {

using base::Status;
using base::StatusCode;

constexpr std::int64_t kStopTimeout_ns =
    200'000'000;  // a thread that waits for a disk does not stop
constexpr std::int64_t kBorrowTimeout_ns = 20'000'000'000;
constexpr std::int64_t kCallTimeout_ns = 10'000'000'000;
constexpr std::int64_t kLongestPause_ns = 5'000'000;
constexpr std::int64_t kFirstPause_ns = 30'000;

// Return EINTR to the program after a stop.
constexpr long kNoticeStops[] = {SYS_epoll_wait, SYS_epoll_pwait,     SYS_semop,
                                 SYS_semtimedop, SYS_rt_sigtimedwait, SYS_recvfrom,
                                 SYS_recvmsg,    SYS_io_getevents};
constexpr long kRestart[] = {SYS_read,     SYS_poll,   SYS_ppoll,          SYS_select,
                             SYS_pselect6, SYS_futex,  SYS_pause,          SYS_nanosleep,
                             SYS_wait4,    SYS_waitid, SYS_clock_nanosleep};

void sleep_ns(std::int64_t ns) {
  const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&time, nullptr);
}

bool is_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
         signal == SIGSYS;
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

int rank_of(const std::string& folder) {
  const std::string call = first_word(folder + "/syscall");
  char* end = nullptr;
  const long number = std::strtol(call.c_str(), &end, 10);
  if (call.empty() || *end != '\0') return 1;  // running, or not told
  const auto is_among = [number](const long* begin, const long* past) {
    return std::find(begin, past, number) != past;
  };
  if (is_among(std::begin(kRestart), std::end(kRestart))) return 0;
  return is_among(std::begin(kNoticeStops), std::end(kNoticeStops)) ? 2 : 1;
}

}  // namespace

std::int64_t steady_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool put_errno_back(const TargetMemory& memory, const ThreadContext& context) {
  return context.errno_at == 0 ||
         memory.write(context.errno_at, &context.errno_value, sizeof(context.errno_value));
}

std::vector<pid_t> threads_to_try(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::vector<std::pair<int, pid_t>> ranked;
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return {};
  while (const dirent* entry = readdir(entries)) {
    const int tid = std::atoi(entry->d_name);
    if (tid <= 0) continue;
    const std::string thread = folder + "/" + entry->d_name;
    if (first_word(thread + "/comm").compare(0, 8, "gpuidle-") == 0) continue;
    ranked.emplace_back(rank_of(thread), tid);
  }
  closedir(entries);
  std::sort(ranked.begin(), ranked.end());
  std::vector<pid_t> tids;
  for (const auto& [rank, tid] : ranked) tids.push_back(tid);
  return tids;
}

// ok with tid_ set: borrowed; ok with `why_not`: try another; else: no thread will do.
Status BorrowedThread::try_one(pid_t tid, std::string* why_not) {
  int error = 0;
  const StopResult result = thread_.stop(tid, kStopTimeout_ns, &error);
  stopped_at_ns_ = steady_ns();
  switch (result) {
    case StopResult::not_permitted:
      return explain_seize_failure(process_, error);
    case StopResult::group_stopped:
      thread_.release();
      return {StatusCode::unavailable, process_.label() +
                                           " is stopped; continue it first: kill -CONT " +
                                           std::to_string(process_.pid)};
    case StopResult::gone:
      thread_.release();
      *why_not = "it has ended";
      return {};
    case StopResult::timed_out:
      thread_.release();
      *why_not = "it does not stop (it waits for a disk or a network file system)";
      return {};
    case StopResult::stopped:
      break;
  }
  if (!thread_.save(&context_)) {
    *why_not = "its registers cannot be read";
  } else {
    *why_not = why_not_safe(memory_, layout_, thread_, context_);
  }
  if (why_not->empty() && thread_.block_signals()) {
    tid_ = tid;
  } else {
    thread_.release();
  }
  return {};
}

Status BorrowedThread::borrow(std::uint32_t* probes) {
  const std::int64_t deadline_ns = steady_ns() + kBorrowTimeout_ns;
  std::int64_t pause_ns = kFirstPause_ns;
  std::string why_not = "it has no threads";
  while (steady_ns() < deadline_ns) {
    for (const pid_t tid : threads_to_try(process_.pid)) {
      Status status = try_one(tid, &why_not);
      if (!status.ok() || tid_ != 0) return status;
      ++*probes;
    }
    if (kill(process_.pid, 0) != 0) return {StatusCode::not_found, process_.label() + " has ended"};
    sleep_ns(pause_ns);
    pause_ns = std::min(pause_ns * 3 / 2, kLongestPause_ns);
  }
  return {StatusCode::unavailable, "no thread of " + process_.label() +
                                       " could be borrowed in 20 s, of the last one: " + why_not +
                                       "; nothing was changed, try again"};
}

bool BorrowedThread::give_back() {
  if (tid_ == 0 || is_lost_) return tid_ == 0;
  const bool has_errno = put_errno_back(memory_, context_);
  const bool is_restored = thread_.restore(context_) && has_errno;
  thread_.release();
  tid_ = 0;
  return is_restored;
}

base::Result<std::int64_t> BorrowedThread::system_call(long number, std::uint64_t a,
                                                       std::uint64_t b, std::uint64_t c,
                                                       std::uint64_t d, std::uint64_t e,
                                                       std::uint64_t f) {
  std::int64_t result = 0;
  if (!thread_.system_call(context_, layout_.call_instruction, number, {a, b, c, d, e, f},
                           &result)) {
    return Status(StatusCode::unavailable, process_.label() + " is not allowed the system call " +
                                               std::to_string(number) +
                                               " (seccomp); start the program with 'gpuidle run'");
  }
  return result;
}

Status BorrowedThread::keep_errno(const BorrowedRegion& region) {
  base::Result<std::uint64_t> address = call(region, layout_.errno_location, 0, 0);
  if (!address.ok()) return address.status();
  std::int32_t value = 0;
  if (memory_.read(address.value(), &value)) {
    context_.errno_at = address.value();
    context_.errno_value = value;
    if (region.write_errno(context_)) return {};
  }
  return {StatusCode::unavailable, "cannot keep errno of a thread of " + process_.label()};
}

base::Result<std::uint64_t> BorrowedThread::call(const BorrowedRegion& region,
                                                 std::uint64_t function, std::uint64_t first,
                                                 std::uint64_t second) {
  const Status broken(StatusCode::unavailable, "cannot run code in " + process_.label());
  if (!region.begin_call() ||
      !thread_.set_registers(region.registers_for_call(context_, function, first, second)) ||
      !thread_.resume()) {
    return broken;
  }
  const std::int64_t begin_ns = steady_ns();
  std::uint64_t result = 0;
  while (!region.is_call_done(&result)) {
    if (const int signal = thread_.pending_stop(); signal != 0) {
      // Half an opened library is no state to leave a program in: only a fault ends the call.
      if (!is_fault(signal) && signal != SIGKILL && thread_.resume()) continue;
      if (signal == SIGKILL) is_lost_ = true;  // the process has ended
      return Status(StatusCode::unavailable, std::string("the call in ") + process_.label() +
                                                 " ended with " + strsignal(signal) +
                                                 "; its thread was put back");
    }
    const std::int64_t waited_ns = steady_ns() - begin_ns;
    if (waited_ns > kCallTimeout_ns) {
      // Another thread holds the loader's lock for long. The call will end; its thread then sleeps.
      is_lost_ = true;
      return Status(StatusCode::unavailable,
                    "opening the library in " + process_.label() +
                        " has not ended in 10 s; put its thread back later with 'gpuidle repair " +
                        std::to_string(process_.pid) + "'");
    }
    wait_a_moment(waited_ns);
  }
  if (!thread_.stop_again(kStopTimeout_ns)) {
    is_lost_ = true;
    return broken;
  }
  return result;
}

}  // namespace gpuidle::cli
