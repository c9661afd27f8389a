// SPDX-License-Identifier: Apache-2.0
//
// Interrupts the threads of a Python program as often as it can and checks each stack that they
// take of themselves: a line of the program that calls a function names it, so a frame whose
// caller's line does not name it is wrong. Part of the probe library; python_load.py is the
// program.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/host_stack.h"
#include "libgpuidle/stacks/python_frames.h"
#include "libgpuidle/stacks/signal_capture.h"
#include "libgpuidle/stacks/stack_word.h"

namespace {

using namespace gpuidle::stacks;

constexpr std::int64_t kTimeout_ns = 20'000'000;

std::mutex g_mutex;
std::vector<int> g_threads;
std::atomic<bool> g_is_ended{false};
std::thread g_sampler;

struct Counts {
  std::uint64_t samples = 0;
  std::uint64_t frames = 0;     // pairs of Python frames that were compared
  std::uint64_t wrong = 0;      // pairs whose caller does not name the callee
  std::uint64_t no_python = 0;  // stacks of Python threads without Python frames
  std::uint64_t unnamed = 0;
  std::uint64_t unanswered = 0;
} g_counts;
std::string g_first_wrong;

class Checker {
 public:
  explicit Checker(const std::string& path) : path_(path) {
    std::ifstream source(path);
    for (std::string line; std::getline(source, line);) lines_.push_back(line);
  }

  void check(const std::uint64_t* words, int count) {
    const Code* callee = nullptr;
    int python_frames = 0;
    for (int i = 0; i < count; ++i) {
      if (!is_python_word(words[i])) continue;
      ++python_frames;
      const Code* const code = code_of(code_id_of(words[i]));
      if (code == nullptr) ++g_counts.unnamed;
      // Frames of other files, threading's, are not ours to know.
      if (code == nullptr || !code->is_ours) {
        callee = nullptr;
        continue;
      }
      const std::uint32_t line =
          PythonFrames::code_table().line_of(code_id_of(words[i]), position_of(words[i]));
      if (callee != nullptr) compare(*callee, *code, line);
      callee = code;
    }
    if (python_frames == 0) ++g_counts.no_python;
  }

 private:
  struct Code {
    std::string name;
    bool is_ours = false;
  };

  const Code* code_of(std::uint32_t id) {
    const auto known = codes_.find(id);
    if (known != codes_.end()) return &known->second;
    PythonCode described;
    if (!PythonFrames::code_table().describe(id, &described)) return nullptr;
    const std::size_t dot = described.name.rfind('.');
    Code code{dot == std::string::npos ? described.name : described.name.substr(dot + 1),
              described.file == path_};
    return &codes_.emplace(id, code).first->second;
  }

  void compare(const Code& callee, const Code& caller, std::uint32_t line) {
    ++g_counts.frames;
    const bool is_named = line > 0 && line <= lines_.size() &&
                          lines_[line - 1].find(callee.name) != std::string::npos;
    if (is_named) return;
    ++g_counts.wrong;
    if (!g_first_wrong.empty()) return;
    g_first_wrong =
        caller.name + " at line " + std::to_string(line) + " does not call " + callee.name;
  }

  std::string path_;
  std::vector<std::string> lines_;
  std::unordered_map<std::uint32_t, Code> codes_;
};

void sample(const std::string& path, std::uint64_t wanted, double seconds) {
  Checker checker(path);
  SignalCapture capture;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (std::size_t turn = 0; g_counts.samples < wanted && std::chrono::steady_clock::now() < end;
       ++turn) {
    int tid = 0;
    {
      const std::lock_guard<std::mutex> lock(g_mutex);
      if (!g_threads.empty()) tid = g_threads[turn % g_threads.size()];
    }
    if (tid == 0) continue;
    const std::uint64_t* words = nullptr;
    int count = 0;
    bool is_cut = false;
    const auto answer =
        capture.take(tid, CallStack::kMaxFrames, kTimeout_ns, &words, &count, &is_cut);
    if (answer == SignalCapture::Answer::not_in_time) ++g_counts.unanswered;
    if (answer != SignalCapture::Answer::taken) continue;
    ++g_counts.samples;
    checker.check(words, count);
  }
  g_is_ended = true;
}

}  // namespace

extern "C" {

/// The calling thread is to be interrupted from here on, until load_leave().
void load_join() {
  static const bool is_ready = CallStack::prepare();
  std::uint64_t words[CallStack::kMaxFrames];
  bool is_cut = false;
  if (is_ready) capture_host_stack(words, CallStack::kMaxFrames, &is_cut);
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_threads.push_back(static_cast<int>(syscall(SYS_gettid)));
}

void load_leave() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const int tid = static_cast<int>(syscall(SYS_gettid));
  for (std::size_t i = 0; i < g_threads.size(); ++i) {
    if (g_threads[i] == tid) g_threads.erase(g_threads.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

/// Begins to interrupt: until `samples` were taken, `seconds` at most.
void load_start(const char* path, std::uint64_t samples, double seconds) {
  g_sampler = std::thread(sample, std::string(path), samples, seconds);
}

int load_is_ended() { return g_is_ended ? 1 : 0; }

/// Waits for the end; `out` gets the six counts. What was wrong first, "" = nothing.
const char* load_finish(std::uint64_t* out) {
  g_sampler.join();
  out[0] = g_counts.samples;
  out[1] = g_counts.frames;
  out[2] = g_counts.wrong;
  out[3] = g_counts.no_python;
  out[4] = g_counts.unnamed;
  out[5] = g_counts.unanswered;
  return g_first_wrong.c_str();
}
}
