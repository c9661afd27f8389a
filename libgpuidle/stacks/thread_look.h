// SPDX-License-Identifier: Apache-2.0
//
// What /proc tells about one thread at one moment: running or asleep, in which system call, what it
// has used. Read by the sampler's own thread; parsing is apart from reading, so that tests feed
// text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuidle::stacks {

/// Folder of a thread or process under /proc, without a slash at the end.
struct ProcFolder {
  char path[48] = "";
  int pid = 0;  ///< whose memory it is

  static ProcFolder of_own_thread(int tid);
  static ProcFolder of_process(int pid);
};

/// Reads at most `size` bytes of a file in `folder` into `out`; their number, 0 if it cannot be
/// read. Opens and closes a descriptor. Context: sampler.
std::size_t read_proc(const ProcFolder& folder, const char* name, char* out, std::size_t size);

/// From "syscall".
struct CallState {
  bool is_known = false;    ///< the file could be read
  bool is_running = false;  ///< or ready to; then nothing else is known
  int number = -1;          ///< -1: not in a system call (a page fault)
  std::array<std::uint64_t, 6> arguments{};
  std::uintptr_t stack_pointer = 0;
  std::uintptr_t instruction = 0;  ///< address behind the system call
};
CallState parse_call_state(std::string_view text);

/// From "schedstat"; totals since the thread began.
struct ProcessorUse {
  bool is_known = false;
  std::uint64_t cpu_ns = 0;   ///< lags up to a scheduler's tick behind while it runs
  std::uint64_t wait_ns = 0;  ///< ready, without a processor
  std::uint64_t turns = 0;    ///< how often it was given one
};
ProcessorUse parse_processor_use(std::string_view text);

/// From "stat".
struct ThreadStatus {
  bool is_known = false;
  char state = '?';  ///< R, S, D, Z, T, ...
  int parent = 0;
  std::uint64_t major_faults = 0;
  char name[16] = "";
};
ThreadStatus parse_thread_status(std::string_view text);

/// From "status": whether the thread blocks `signal`. False too where it is not told.
bool parse_is_blocked(std::string_view text, int signal);

struct ThreadLook {
  CallState call;
  ProcessorUse use;
  ThreadStatus status;
  bool is_gone() const { return !status.is_known; }
};

/// Three files, 15 us. Context: sampler.
ThreadLook look_at(const ProcFolder& folder);
/// As `before`, with the system call and the processor use of this moment. Context: sampler.
ThreadLook look_again(const ProcFolder& folder, const ThreadLook& before);

/// True if the thread has stood still between the two looks.
bool is_same_standstill(const ThreadLook& before, const ThreadLook& after);

}  // namespace gpuidle::stacks
