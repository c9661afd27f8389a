// SPDX-License-Identifier: Apache-2.0
//
// The walk itself: from a thread state along its frames, by the offsets of one layout. Written over
// the way memory is read, so that the same steps serve a stack that is known to be consistent, one
// whose layout is still to be proven, and one that was interrupted anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libgpuidle/stacks/peek_memory.h"
#include "libgpuidle/stacks/python_interpreter.h"
#include "libgpuidle/stacks/stack_merge.h"
#include "libgpuidle/stacks/stack_word.h"

namespace gpuidle::stacks {

enum class WalkEnd : std::uint8_t {
  outermost,  ///< all frames were seen
  too_deep,   ///< the innermost `max_frames` were kept, the rest followed to a limit
  damaged,    ///< a pointer that is none, or an object that is no code; what came before is good
};

/// Whether the thread stands where its interpreter has left its frames in order.
enum class Standing : std::uint8_t {
  in_call,      ///< inside of a call: all is consistent
  interrupted,  ///< anywhere: for some instructions around a call, links are half made
};

/// Fills `frames`, innermost first, all but `word`; `*count` <= `max_frames`. Memory::load returns
/// false for what cannot be read. Context: hook.
template <typename Memory, Standing kStanding = Standing::in_call>
class PythonWalk {
 public:
  PythonWalk(const PythonInterpreter& python, Memory memory, PythonFrame* frames, int max_frames)
      : layout_(*python.layout),
        code_type_(python.code_type),
        memory_(memory),
        frames_(frames),
        max_frames_(max_frames) {}

  WalkEnd run(const char* thread_state) {
    // A loop in damaged memory must end; deep recursion is followed for the anchor at its end.
    constexpr int kMaxSteps = 8192;
    const char* frame = nullptr;
    if (!begin(thread_state, &frame)) return WalkEnd::damaged;
    for (int step = 0; frame != nullptr; ++step) {
      if (step == kMaxSteps) return WalkEnd::too_deep;
      if (!is_plausible(frame) || !visit(frame) ||
          !pointer(frame + layout_.frame_previous, &frame)) {
        // Frames may look like frames and be none: what no call is known to have run is not shown.
        if (kStanding == Standing::interrupted) count_ = run_begin_;
        return WalkEnd::damaged;
      }
      if (run_ended_ && must_join() && !is_joined(frame)) {
        // The run that just ended is the one that is half made.
        if (kStanding == Standing::interrupted) count_ = last_run_begin_;
        return WalkEnd::damaged;
      }
    }
    // Some call of the evaluation loop must own the outermost frame.
    if (run_begin_ != count_) return WalkEnd::damaged;
    return is_cut_ ? WalkEnd::too_deep : WalkEnd::outermost;
  }

  int count() const { return count_; }

 private:
  static bool is_plausible(const char* address) {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    return value % 8 == 0 && value >= 4096 && value < std::uintptr_t{1} << 47;
  }
  bool pointer(const char* address, const char** value) const {
    return memory_.load(address, value);
  }

  bool begin(const char* thread, const char** frame) {
    if (layout_.thread_cframe != 0 &&
        (!pointer(thread + layout_.thread_cframe, &cframe_) || !is_plausible(cframe_))) {
      return false;
    }
    if (layout_.thread_frame != 0) return pointer(thread + layout_.thread_frame, frame);
    return pointer(cframe_ + layout_.cframe_frame, frame);
  }

  // Takes one frame. False: it is none.
  bool visit(const char* frame) {
    run_ended_ = false;
    std::uint8_t kind = 0;
    if (layout_.frame_kind != 0 && !memory_.load(frame + layout_.frame_kind, &kind)) return false;
    const bool is_shim = layout_.chain >= FrameChain::cframe_shims && kind >= kOwnerOnCStack;
    if (is_shim) {
      end_run(reinterpret_cast<std::uintptr_t>(frame));
      // 3.12 has both lists; they differ only while a call is being made.
      return kStanding == Standing::in_call || layout_.chain != FrameChain::cframe_shims ||
             leave_cframe();
    }
    if (!take(frame)) return false;
    switch (layout_.chain) {
      case FrameChain::frame_objects:
        end_run(0);
        break;
      case FrameChain::paired_cframes:
        return end_cframe();
      case FrameChain::cframe_runs:
        return kind == 0 || end_cframe();
      case FrameChain::cframe_shims:
      case FrameChain::shims:
        break;
    }
    return true;
  }

  bool take(const char* frame) {
    const char* code = nullptr;
    if (!pointer(frame + layout_.frame_code, &code)) return false;
    // From 3.14 the lowest bits are a tag.
    code -= reinterpret_cast<std::uintptr_t>(code) & 3u;
    std::uintptr_t type = 0;
    if (!is_plausible(code) || !memory_.load(code + kObjectType, &type) || type != code_type_) {
      return false;
    }
    if (count_ == max_frames_) {
      is_cut_ = true;
      return true;
    }
    std::int32_t position = 0;
    if (!load_position(frame, code, &position)) return false;
    PythonFrame& out = frames_[count_++];
    out.code = code;
    out.position = position;
    out.anchor = 0;
    out.is_entry = false;
    return true;
  }

  bool load_position(const char* frame, const char* code, std::int32_t* position) const {
    if (layout_.code_instructions == 0) {
      if (!memory_.load(frame + layout_.frame_position, position)) return false;
      if (layout_.lines == LineTable::ranges) *position *= 2;  // counted in instructions
      return true;
    }
    std::uintptr_t instruction = 0;
    std::int64_t code_units = 0;
    if (!memory_.load(frame + layout_.frame_position, &instruction) ||
        !memory_.load(code + kObjectSize, &code_units)) {
      return false;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(code) + layout_.code_instructions;
    const auto bytes = static_cast<std::int64_t>(instruction - first);
    const bool is_inside = bytes >= -2 && bytes < 2 * code_units;
    *position = is_inside ? static_cast<std::int32_t>(bytes) : kNoPosition;
    return true;
  }

  // All frames since the last call were run by the call of the loop that owns `anchor`.
  void end_run(std::uintptr_t anchor) {
    for (int i = run_begin_; i < count_; ++i) frames_[i].anchor = anchor;
    if (run_begin_ < count_) frames_[count_ - 1].is_entry = true;
    last_run_begin_ = run_begin_;
    run_begin_ = count_;
    run_ended_ = true;
  }
  bool end_cframe() {
    end_run(reinterpret_cast<std::uintptr_t>(cframe_));
    return leave_cframe();
  }
  bool leave_cframe() {
    if (!pointer(cframe_ + layout_.cframe_previous, &cframe_)) return false;
    return cframe_ == nullptr || is_plausible(cframe_);
  }
  bool must_join() const {
    return layout_.chain == FrameChain::cframe_runs ||
           (kStanding == Standing::interrupted && layout_.chain == FrameChain::cframe_shims);
  }
  // The list of calls and the list of frames must agree where one call ends.
  bool is_joined(const char* next_frame) const {
    const char* frame = nullptr;
    if (cframe_ == nullptr) return next_frame == nullptr;
    return pointer(cframe_ + layout_.cframe_frame, &frame) && frame == next_frame;
  }

  const PythonLayout& layout_;
  const std::uintptr_t code_type_;
  Memory memory_;
  PythonFrame* frames_;
  const int max_frames_;
  const char* cframe_ = nullptr;
  int count_ = 0;
  int run_begin_ = 0;
  int last_run_begin_ = 0;
  bool run_ended_ = false;
  bool is_cut_ = false;
};

}  // namespace gpuidle::stacks
