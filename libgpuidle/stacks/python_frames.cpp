// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/python_frames.h"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "libgpuidle/stacks/python_interpreter.h"
#include "libgpuidle/stacks/python_walk.h"
#include "libgpuidle/stacks/stack_merge.h"
#include "libgpuidle/stacks/stack_word.h"

namespace gpuidle::stacks {
namespace {

enum class Mode : std::uint8_t { absent, off, unchecked, on };

// Written by prepare() before the first hook runs, read-only afterwards.
PythonInterpreter g_python;
PythonCodeTable g_codes;
char g_refusal[256] = "";

std::atomic<Mode> g_mode{Mode::absent};
std::atomic<const char*> g_off_reason{""};
std::atomic<std::uint64_t> g_stacks{0};
std::atomic<std::uint64_t> g_broken{0};
std::atomic<std::uint64_t> g_misplaced{0};

void switch_off(const char* reason) {
  g_off_reason.store(reason, std::memory_order_release);
  g_mode.store(Mode::off, std::memory_order_release);
}

// Reads through the kernel, which answers where a plain read would end the program.
struct CheckedMemory {
  bool* is_permitted;

  template <typename T>
  bool load(const char* address, T* value) const {
    iovec local{value, sizeof(T)};
    iovec remote{const_cast<char*>(address), sizeof(T)};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof(T)) return true;
    // Old containers forbid the call. What was compared before must do then.
    if (errno == EFAULT) return false;
    *is_permitted = false;
    return DirectMemory().load(address, value);
  }
};

// nullptr: this thread has never run Python.
const char* thread_state() {
  if (g_python.attached_thread != nullptr) {
    void* const attached = g_python.attached_thread();
    if (attached != nullptr) return static_cast<const char*>(attached);
  }
  return static_cast<const char*>(g_python.this_thread());
}

// Calls of the evaluation loop lie above this frame, each above the one that it led to.
bool are_anchors_sane(const PythonFrame* frames, int count) {
  std::uintptr_t below = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  for (int i = 0; i < count; ++i) {
    if (frames[i].anchor == 0) continue;
    if (frames[i].anchor < below) return false;
    below = frames[i].anchor;
  }
  return true;
}

// Proves the layout on a thread that is inside Python code. Leaves the mode as it is if this
// thread proves nothing.
void check_on(const char* thread) {
  bool is_permitted = true;
  const CheckedMemory memory{&is_permitted};
  std::uintptr_t thread_id = 0;
  if (!memory.load(thread + g_python.layout->thread_id, &thread_id) ||
      thread_id != static_cast<std::uintptr_t>(pthread_self())) {
    switch_off("the interpreter's thread state does not look as expected");
    return;
  }
  PythonFrame frames[PythonFrames::kMaxFrames];
  PythonWalk<CheckedMemory> walk(g_python, memory, frames, PythonFrames::kMaxFrames);
  const WalkEnd end = walk.run(thread);
  if (end == WalkEnd::damaged) {
    switch_off("the interpreter's frames do not look as expected");
  } else if (!are_anchors_sane(frames, walk.count())) {
    switch_off("the interpreter's frames do not lie on the thread's stack");
  } else if (walk.count() > 0) {
    g_mode.store(Mode::on, std::memory_order_release);
  }
}

int copy_addresses(const NativeFrame* native, int count, std::uint64_t* words, int max_words,
                   bool* is_cut) {
  const int kept = count < max_words ? count : max_words;
  for (int i = 0; i < kept; ++i) {
    words[i] = reinterpret_cast<std::uintptr_t>(native[i].return_address);
  }
  if (kept < count) *is_cut = true;
  return kept;
}

// Without a thread state, or where nothing of it can be read, the words are the native frames.
int capture_peeked(const char* thread, const NativeFrame* native, int native_count,
                   std::uint64_t* words, int max_words, PeekedPython* room, bool* is_cut) {
  int count = 0;
  WalkEnd end = WalkEnd::outermost;
  if (thread != nullptr) {
    room->windows.forget();
    PythonWalk<PeekMemory, Standing::interrupted> walk(g_python, PeekMemory{&room->windows},
                                                       room->frames, PythonFrames::kMaxFrames);
    end = walk.run(thread);
    count = walk.count();
  }
  if (count == 0) return copy_addresses(native, native_count, words, max_words, is_cut);
  for (int i = 0; i < count; ++i) {
    PythonFrame& frame = room->frames[i];
    const std::uint32_t id = g_codes.id_of_peeked(frame.code, &room->windows, &room->code);
    frame.word = id == PythonCodeTable::kInternalCode ? 0 : python_word(id, frame.position);
  }
  const MergeResult merged =
      merge_stacks(native, native_count, room->frames, count,
                   {g_python.eval_begin, g_python.eval_end}, words, max_words);
  if (merged.is_cut || end != WalkEnd::outermost) *is_cut = true;
  return merged.count;
}

// The thread state of this thread if its frames may be read now, else nullptr.
const char* readable_thread_state() {
  Mode mode = g_mode.load(std::memory_order_acquire);
  if (mode == Mode::absent || mode == Mode::off) return nullptr;
  // A daemon thread may outlive its thread state, and this thread could be one.
  if (g_python.is_initialized() == 0) return nullptr;
  const char* const thread = thread_state();
  if (thread == nullptr || mode == Mode::on) return thread;
  const int host_errno = errno;
  check_on(thread);
  errno = host_errno;
  return g_mode.load(std::memory_order_acquire) == Mode::on ? thread : nullptr;
}

}  // namespace

void PythonFrames::prepare() {
  std::string reason;
  switch (find_python(&g_python, &reason)) {
    case PythonSupport::none:
      return;
    case PythonSupport::refused:
      std::strncpy(g_refusal, reason.c_str(), sizeof(g_refusal) - 1);
      switch_off(g_refusal);
      return;
    case PythonSupport::supported:
      break;
  }
  if (!g_codes.prepare(*g_python.layout)) {
    switch_off("no memory for the names of code objects");
    return;
  }
  g_mode.store(Mode::unchecked, std::memory_order_release);
  readable_thread_state();
}

const char* PythonFrames::off_reason() { return g_off_reason.load(std::memory_order_acquire); }

int PythonFrames::capture(const NativeFrame* native, int native_count, std::uint64_t* words,
                          int max_words, bool* is_cut) {
  const char* const thread = readable_thread_state();
  if (thread == nullptr) return copy_addresses(native, native_count, words, max_words, is_cut);
  PythonFrame frames[kMaxFrames];
  ThreadWalkers::note_python_state(thread);
  PythonWalk<DirectMemory> walk(g_python, DirectMemory(), frames, kMaxFrames);
  const WalkEnd end = walk.run(thread);
  const int count = walk.count();
  if (count == 0) return copy_addresses(native, native_count, words, max_words, is_cut);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t id = g_codes.id_of(frames[i].code);
    frames[i].word = id == PythonCodeTable::kInternalCode ? 0 : python_word(id, frames[i].position);
  }
  const MergeResult merged =
      merge_stacks(native, native_count, frames, count, {g_python.eval_begin, g_python.eval_end},
                   words, max_words);
  g_stacks.fetch_add(1, std::memory_order_relaxed);
  if (end == WalkEnd::damaged) g_broken.fetch_add(1, std::memory_order_relaxed);
  if (merged.misplaced != 0) {
    g_misplaced.fetch_add(static_cast<std::uint64_t>(merged.misplaced), std::memory_order_relaxed);
  }
  if (merged.is_cut || end == WalkEnd::too_deep) *is_cut = true;
  return merged.count;
}

int PythonFrames::capture_interrupted(const NativeFrame* native, int native_count,
                                      std::uint64_t* words, int max_words, PeekedPython* room,
                                      bool* is_cut) {
  const bool is_on = g_mode.load(std::memory_order_acquire) == Mode::on;
  const char* const thread = is_on && g_python.is_initialized() != 0 ? thread_state() : nullptr;
  return capture_peeked(thread, native, native_count, words, max_words, room, is_cut);
}

int PythonFrames::capture_other(const KnownThread& thread, const NativeFrame* native,
                                int native_count, std::uint64_t* words, int max_words,
                                PeekedPython* room, bool* is_cut) {
  const bool is_on = g_mode.load(std::memory_order_acquire) == Mode::on;
  const char* state = is_on && g_python.is_initialized() != 0 ? thread.python_state : nullptr;
  room->windows.forget();
  std::uintptr_t owner = 0;
  // The state may have been freed, and its memory be another thread's by now.
  if (state != nullptr && (!room->windows.load(state + g_python.layout->thread_id, &owner) ||
                           owner != static_cast<std::uintptr_t>(thread.self))) {
    state = nullptr;
  }
  return capture_peeked(state, native, native_count, words, max_words, room, is_cut);
}

EvaluationLoop PythonFrames::evaluation_loop() { return {g_python.eval_begin, g_python.eval_end}; }

const PythonCodeTable& PythonFrames::code_table() { return g_codes; }

PythonCounts PythonFrames::counts() {
  PythonCounts counts;
  counts.stacks = g_stacks.load(std::memory_order_relaxed);
  counts.broken = g_broken.load(std::memory_order_relaxed);
  counts.misplaced_frames = g_misplaced.load(std::memory_order_relaxed);
  counts.unnamed_frames = g_codes.unnamed();
  return counts;
}

}  // namespace gpuidle::stacks
