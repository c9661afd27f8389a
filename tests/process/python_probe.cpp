// SPDX-License-Identifier: Apache-2.0
//
// A library that Python programs open with ctypes to ask, at a point of their choosing, what the
// recorder would see there. The native stack comes from libgcc, so that the walk of the Python
// frames, their names and the merge are tested alone, or from the recorder's own walk. Answers are
// text, compared by python_frames_test.
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/host_stack.h"
#include "libgpuidle/stacks/python_frames.h"
#include "libgpuidle/stacks/python_lines.h"
#include "libgpuidle/stacks/stack_word.h"

namespace {

using gpuidle::stacks::CallStack;
using gpuidle::stacks::NativeFrame;
using gpuidle::stacks::PythonCode;
using gpuidle::stacks::PythonFrames;

constexpr int kMaxNative = 1024;
constexpr int kMaxWords = 2048;

struct NativeStack {
  std::vector<NativeFrame> frames;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* out) {
  auto& frames = static_cast<NativeStack*>(out)->frames;
  // What libgcc calls CFA is the stack pointer inside of the frame: the end of the one before.
  if (!frames.empty()) frames.back().frame_address = _Unwind_GetCFA(context);
  frames.push_back({reinterpret_cast<void*>(_Unwind_GetIP(context)), 0});
  return frames.size() == kMaxNative ? _URC_END_OF_STACK : _URC_NO_REASON;
}

NativeStack native_stack() {
  NativeStack stack;
  stack.frames.reserve(kMaxNative);
  _Unwind_Backtrace(&note_frame, &stack);
  return stack;
}

std::string line_of(std::uint64_t word) {
  if (!gpuidle::stacks::is_python_word(word)) {
    Dl_info info{};
    const auto address = static_cast<std::uintptr_t>(word - 1);
    dladdr(reinterpret_cast<void*>(address), &info);
    return std::string("native\t") + (info.dli_sname == nullptr ? "?" : info.dli_sname);
  }
  const auto& table = PythonFrames::code_table();
  const std::uint32_t id = gpuidle::stacks::code_id_of(word);
  PythonCode code;
  if (!table.describe(id, &code)) return "python\t?\t?\t0";
  return "python\t" + code.name + "\t" + code.file + "\t" +
         std::to_string(table.line_of(id, gpuidle::stacks::position_of(word)));
}

}  // namespace

extern "C" {

/// Switches Python frames on; the reason if they are off, else "".
const char* probe_prepare() {
  PythonFrames::prepare();
  return PythonFrames::off_reason();
}

/// The merged stack here, one frame a line, innermost first. `with_addresses` 0: as if the native
/// walk gave no frame addresses. `python_frames` > 0: of the Python frames only the innermost so
/// many, and no others. Returns the bytes written, -1 if `size` is too small.
int probe_stack(char* out, int size, int with_addresses, int python_frames) {
  NativeStack native = native_stack();
  if (with_addresses == 0) {
    for (NativeFrame& frame : native.frames) frame.frame_address = 0;
  }
  std::vector<std::uint64_t> words(kMaxWords);
  bool is_cut = false;
  const int count =
      PythonFrames::capture(native.frames.data(), static_cast<int>(native.frames.size()),
                            words.data(), kMaxWords, &is_cut);
  std::string text;
  int left = python_frames > 0 ? python_frames : kMaxWords;
  for (int i = 0; i < count && left > 0; ++i) {
    const std::uint64_t word = words[static_cast<std::size_t>(i)];
    if (python_frames > 0 && !gpuidle::stacks::is_python_word(word)) continue;
    text += line_of(word) + "\n";
    --left;
  }
  if (text.size() >= static_cast<std::size_t>(size)) return -1;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return static_cast<int>(text.size());
}

/// Takes a stack and throws it away; has the signature of on_exit()'s functions. `words` may be
/// nullptr, else it gets the number of words.
void probe_take(int, int* words_out) {
  const NativeStack native = native_stack();
  std::vector<std::uint64_t> words(kMaxWords);
  bool is_cut = false;
  const int count =
      PythonFrames::capture(native.frames.data(), static_cast<int>(native.frames.size()),
                            words.data(), kMaxWords, &is_cut);
  if (words_out != nullptr) *words_out = count;
}

/// As probe_stack(), all by the recorder itself: its own native walk, without the frames of this
/// library, and not more than it keeps.
int probe_recorder(char* out, int size) {
  static const bool is_ready = CallStack::prepare();
  std::uint64_t words[CallStack::kMaxFrames];
  bool is_truncated = false;
  const int count =
      is_ready ? gpuidle::stacks::capture_host_stack(words, CallStack::kMaxFrames, &is_truncated)
               : 0;
  std::string text;
  for (int i = 0; i < count; ++i) text += line_of(words[i]) + "\n";
  if (text.size() >= static_cast<std::size_t>(size)) return -1;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return static_cast<int>(text.size());
}

/// Median cost of one stack taken by the recorder itself, native walk included, in ns.
double probe_recorder_cost(int rounds, int* words_out) {
  static const bool is_ready = CallStack::prepare();
  std::uint64_t words[CallStack::kMaxFrames];
  std::vector<double> costs;
  for (int round = 0; is_ready && round < rounds; ++round) {
    constexpr int kBatch = 50;
    bool is_truncated = false;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      *words_out = gpuidle::stacks::capture_host_stack(words, CallStack::kMaxFrames, &is_truncated);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    costs.push_back(took.count() / kBatch);
  }
  if (costs.empty()) return 0;
  std::nth_element(costs.begin(), costs.begin() + rounds / 2, costs.end());
  return costs[static_cast<std::size_t>(rounds / 2)];
}

/// What did not go as it should: broken stacks, misplaced and unnamed frames, code objects.
void probe_counts(std::uint64_t* out) {
  const auto counts = PythonFrames::counts();
  out[0] = counts.broken;
  out[1] = counts.misplaced_frames;
  out[2] = counts.unnamed_frames;
  out[3] = PythonFrames::code_table().size();
}

/// The line that the decoder of CPython 3.`minor` finds at `position`.
std::uint32_t probe_line(int minor, const unsigned char* table, int bytes, int first_line,
                         int position) {
  const auto* layout = gpuidle::stacks::python_layout(minor);
  if (layout == nullptr) return UINT32_MAX;
  return gpuidle::stacks::python_line(layout->lines, table, static_cast<std::size_t>(bytes),
                                      first_line, position);
}

/// Calls back on a thread that Python did not start.
void probe_call_on_new_thread(void (*callback)()) { std::thread(callback).join(); }

/// Median cost of one merged capture here in ns, native walk not included; `*words` and `*native`
/// get the sizes.
double probe_cost(int rounds, int* words_out, int* native_out) {
  const NativeStack native = native_stack();
  const int native_count = static_cast<int>(native.frames.size());
  std::vector<std::uint64_t> words(kMaxWords);
  bool is_cut = false;
  std::vector<double> costs;
  for (int round = 0; round < rounds; ++round) {
    constexpr int kBatch = 50;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      *words_out = PythonFrames::capture(native.frames.data(), native_count, words.data(),
                                         kMaxWords, &is_cut);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    costs.push_back(took.count() / kBatch);
  }
  *native_out = native_count;
  std::nth_element(costs.begin(), costs.begin() + rounds / 2, costs.end());
  return costs[static_cast<std::size_t>(rounds / 2)];
}
}
