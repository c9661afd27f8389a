// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/thread_look.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace gpuidle::stacks {
namespace {

// Numbers in a text, one after the other.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : text_(text) {}

  bool next(int base, std::uint64_t* value) {
    skip_blanks();
    if (base == 16 && text_.substr(0, 2) == "0x") text_.remove_prefix(2);
    std::size_t digits = 0;
    std::uint64_t sum = 0;
    for (; digits < text_.size() && digit(text_[digits]) < base; ++digits) {
      sum =
          sum * static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(digit(text_[digits]));
    }
    text_.remove_prefix(digits);
    *value = sum;
    return digits != 0;
  }
  bool starts_with(std::string_view word) {
    skip_blanks();
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }

 private:
  void skip_blanks() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }
  static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return 99;
  }
  std::string_view text_;
};

}  // namespace

ProcFolder ProcFolder::of_own_thread(int tid) {
  ProcFolder folder;
  std::snprintf(folder.path, sizeof(folder.path), "/proc/self/task/%d", tid);
  folder.pid = static_cast<int>(getpid());
  return folder;
}

ProcFolder ProcFolder::of_process(int pid) {
  ProcFolder folder;
  std::snprintf(folder.path, sizeof(folder.path), "/proc/%d", pid);
  folder.pid = pid;
  return folder;
}

std::size_t read_proc(const ProcFolder& folder, const char* name, char* out, std::size_t size) {
  char path[96];
  std::snprintf(path, sizeof(path), "%s/%s", folder.path, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t count = read(fd, out + filled, size - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    filled += static_cast<std::size_t>(count);
  }
  close(fd);
  return filled;
}

CallState parse_call_state(std::string_view text) {
  CallState state;
  Numbers numbers(text);
  if (numbers.starts_with("running")) {
    state.is_known = state.is_running = true;
    return state;
  }
  std::uint64_t number = 0;
  if (!numbers.starts_with("-1")) {
    if (!numbers.next(10, &number)) return state;
    state.number = static_cast<int>(number);
    for (std::uint64_t& argument : state.arguments) {
      if (!numbers.next(16, &argument)) return state;
    }
  }
  std::uint64_t stack_pointer = 0;
  std::uint64_t instruction = 0;
  state.is_known = numbers.next(16, &stack_pointer) && numbers.next(16, &instruction);
  state.stack_pointer = stack_pointer;
  state.instruction = instruction;
  return state;
}

ProcessorUse parse_processor_use(std::string_view text) {
  ProcessorUse use;
  Numbers numbers(text);
  use.is_known = numbers.next(10, &use.cpu_ns) && numbers.next(10, &use.wait_ns) &&
                 numbers.next(10, &use.turns);
  return use;
}

ThreadStatus parse_thread_status(std::string_view text) {
  ThreadStatus status;
  // The name may hold anything, parentheses too; the last one ends it.
  const std::size_t open_at = text.find('(');
  const std::size_t close_at = text.rfind(')');
  if (open_at == std::string_view::npos || close_at == std::string_view::npos ||
      close_at + 3 >= text.size()) {
    return status;
  }
  const std::string_view name = text.substr(open_at + 1, close_at - open_at - 1);
  status.name[name.copy(status.name, sizeof(status.name) - 1)] = '\0';
  status.state = text[close_at + 2];
  Numbers numbers(text.substr(close_at + 3));
  std::uint64_t value = 0;
  if (!numbers.next(10, &value)) return status;
  status.parent = static_cast<int>(value);
  // Group, session, terminal and its group (perhaps -1), flags, minor faults of it and of children.
  constexpr int kBeforeMajorFaults = 7;
  for (int i = 0; i < kBeforeMajorFaults; ++i) {
    numbers.starts_with("-");
    if (!numbers.next(10, &value)) return status;
  }
  status.is_known = numbers.next(10, &status.major_faults);
  return status;
}

bool parse_is_blocked(std::string_view text, int signal) {
  constexpr std::string_view kWord = "\nSigBlk:\t";
  const std::size_t at = text.find(kWord);
  if (at == std::string_view::npos) return false;
  std::uint64_t mask = 0;
  return Numbers(text.substr(at + kWord.size())).next(16, &mask) &&
         (mask >> (signal - 1) & 1u) != 0;
}

ThreadLook look_at(const ProcFolder& folder) {
  ThreadLook look;
  char text[512];
  look.status = parse_thread_status({text, read_proc(folder, "stat", text, sizeof(text))});
  return look_again(folder, look);
}

ThreadLook look_again(const ProcFolder& folder, const ThreadLook& before) {
  ThreadLook look = before;
  char text[512];
  look.use = parse_processor_use({text, read_proc(folder, "schedstat", text, sizeof(text))});
  look.call = parse_call_state({text, read_proc(folder, "syscall", text, sizeof(text))});
  return look;
}

bool is_same_standstill(const ThreadLook& before, const ThreadLook& after) {
  return before.call.is_known && after.call.is_known && !after.call.is_running &&
         before.call.number == after.call.number && before.call.arguments == after.call.arguments &&
         before.call.stack_pointer == after.call.stack_pointer &&
         before.call.instruction == after.call.instruction && before.use.turns == after.use.turns;
}

}  // namespace gpuidle::stacks
