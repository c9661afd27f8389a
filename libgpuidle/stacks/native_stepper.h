// SPDX-License-Identifier: Apache-2.0
//
// Walks a native stack by the rules of .eh_frame: no lock, no heap, no system call, and the frame
// address of every frame. Fed by registers (of a hook or of a signal's context), feeds CallStack.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libgpuidle/stacks/eh_frame.h"
#include "libgpuidle/stacks/native_frame.h"
#include "libgpuidle/stacks/stack_bounds.h"
#include "libgpuidle/stacks/stack_memory.h"

namespace gpuidle::stacks {

/// Values at one instruction, by DWARF number; values[kRip] is the instruction itself.
struct Registers {
  std::array<std::uintptr_t, kRegisterCount> values;
};

/// Registers of the place where it stands. Those that a called function may change are 0.
__attribute__((always_inline)) inline Registers capture_registers() {
  Registers registers{};
  asm volatile(
      "leaq 1f(%%rip), %%rax\n"
      "1: movq %%rax, 128(%0)\n\t"
      "movq %%rbx, 24(%0)\n\t"
      "movq %%rbp, 48(%0)\n\t"
      "movq %%rsp, 56(%0)\n\t"
      "movq %%r12, 96(%0)\n\t"
      "movq %%r13, 104(%0)\n\t"
      "movq %%r14, 112(%0)\n\t"
      "movq %%r15, 120(%0)"
      :
      : "r"(registers.values.data())
      : "rax", "memory");
  return registers;
}

/// Registers of the interrupted code in a signal handler's third argument (ucontext_t).
Registers registers_of(const void* signal_context);

/// Why a walk ended.
enum class StackEnd : std::uint8_t {
  complete,          ///< at the start of the thread
  no_table,          ///< at code without unwind information: generated, hand-written, unloaded
  unsupported_rule,  ///< at a rule that is not understood
  out_of_stack,  ///< the next frame would lie outside of the thread's stack: damaged, or another
  too_deep,      ///< at the number of frames asked for
};

struct WalkResult {
  int count = 0;  ///< frames written
  StackEnd end = StackEnd::out_of_stack;
  bool has_signal_frame = false;  ///< the kernel's frame of a signal handler is among them
};

/// Walks stacks of one thread, and remembers rules and the last stack to be quick. It lies in
/// memory that starts as zeros, and says so by having no constructor; map_new() makes one.
/// Context: hook, also in a signal handler that interrupts the same walker's walk() on its thread;
/// else one thread at a time.
class StackWalker {
 public:
  static constexpr int kMaxFrames = 160;

  /// A walker in fresh pages, 90 KiB of which most stay untouched; nullptr with errno set: none to
  /// be had. Context: hook outside of signal handlers.
  static StackWalker* map_new();
  static void unmap(StackWalker* walker);

  /// Takes another stack, which stays readable as long as walks into it are asked for. Forgets the
  /// last one.
  void set_bounds(StackBounds bounds);
  const StackBounds& bounds() const { return bounds_; }
  /// As set_bounds(), for a copy of a stack: the word at address `a` lies at a + `displacement`.
  void set_copy(StackBounds bounds, std::uintptr_t displacement);

  /// Writes up to `max_frames` frames, at most kMaxFrames, from `start` outwards; the first has the
  /// address of `start` itself. With a start outside of bounds() that one is all. Reads memory of
  /// the stack above the start's stack pointer (and 128 bytes below it) only.
  WalkResult walk(const Registers& start, NativeFrame* frames, int max_frames);

  /// Off: every walk goes to the end by itself; for measuring.
  void set_incremental(bool is_incremental) { is_never_incremental_ = !is_incremental; }

 private:
  // A point on the way out: what alone decides on rules that are plain or uncommon.
  struct Position {
    std::uintptr_t ip;
    std::uintptr_t sp;
    std::uintptr_t bp;
    // What the rule is looked up for: ip where it is an instruction that was interrupted; where it
    // is returned to, the call in front of it: behind the last call of a function that does not
    // return another function may begin.
    std::uintptr_t pc;
  };
  // How a frame's address follows from its position.
  enum class Way : std::uint8_t { by_rsp, by_rbp, outermost, other };
  // A frame of a stack that may be met again. One at the same ip and rsp has the same rule. Its
  // caller is the same if the word at frame_address - 8 is, and rbp too where the way is by_rbp.
  struct Kept {
    std::uintptr_t ip;
    std::uintptr_t bp;  // what it was when `way` asked for it
    std::uintptr_t frame_address;
    std::int16_t saved_rbp;  // slot of the caller's rbp, as UnwindRule's
    Way way;
    bool is_exact;
  };
  // Frames [first, last), innermost first. A walk writes them from the middle on; what a later
  // walk puts in front of those that it shares finds room on the left.
  struct KeptStack {
    int first;
    int last;
    std::uintptr_t first_sp;  // stack pointer of the frame `first`
    std::array<Kept, 2 * kMaxFrames> frames;
    Kept& at(int index) { return frames[static_cast<std::size_t>(index)]; }
    std::uintptr_t sp_of(int index) {
      return index == first ? first_sp : at(index - 1).frame_address;
    }
  };
  struct Remembered {
    std::atomic<std::uintptr_t> pc;  // 0 = empty
    UnwindRule rule;
  };
  struct Walk {
    NativeFrame* out;
    int max;
    int count = 0;
    bool is_owner = false;
    bool may_use_rules = false;
    bool has_signal_frame = false;
    bool needs_registers = false;
    bool has_shared = false;     // the rest of this stack is the last one's from `old` on
    KeptStack* last = nullptr;   // the last stack; nullptr: not to be used
    KeptStack* fresh = nullptr;  // this one; nullptr: not to be kept
    int old = 0;                 // innermost frame of `last` that may still be met
    std::uintptr_t lowest = 0;   // address that is read
    StackEnd end = StackEnd::out_of_stack;
  };
  struct Known;
  static constexpr std::size_t kRulePairs = 1024;

  bool enter(std::uintptr_t here);
  void leave();
  void renew(std::uint32_t generation);
  void prepare_to_keep(std::uintptr_t sp, Walk* walk);
  void keep(Walk* walk);
  void forget_stack() {
    stacks_[0].first = stacks_[0].last = stacks_[1].first = stacks_[1].last = 0;
  }
  static std::size_t pair_of(std::uintptr_t pc);
  const UnwindRule& rule_of(std::uintptr_t pc, const Walk& walk, UnwindRule* found);
  const UnwindRule& look_rule_up(std::uintptr_t pc, const Walk& walk, UnwindRule* found);
  void remember_rule(std::uintptr_t pc, const UnwindRule& rule);
  bool is_readable(std::uintptr_t address, std::uintptr_t lowest) const;
  std::uintptr_t word(std::uintptr_t address) const;

  StackEnd follow(Position at, Walk* walk);
  static bool meets_last_stack(const Position& at, Walk* walk);
  bool splice(Walk* walk, Position* at);
  bool step(const UnwindRule& rule, const Position& at, std::uintptr_t lowest,
            Position* next) const;
  StackEnd leave_frame(const UnwindRule& rule, const Position& at, Position* next, Walk* walk);
  StackEnd step_over_signal(const Position& at, Position* next, Walk* walk);
  StackEnd follow_with_registers(const Registers& start, Walk* walk);
  StackEnd step_with_registers(const UnwindRule& rule, std::uintptr_t lowest, Known* known) const;
  StackEnd step_over_signal_with_registers(Known* known, Walk* walk);
  std::uintptr_t outermost_frame_address(const UnwindRule& rule, const Position& at) const;
  static Way way_of(const UnwindRule& rule);
  static void emit(const Position& at, std::uintptr_t frame_address, const UnwindRule& rule,
                   Walk* walk);

  StackBounds bounds_;
  std::uintptr_t displacement_;  // from an address of the stack to where it is read; 0: itself
  std::uint32_t generation_;     // UnwindTables'; 0 = nothing remembered yet
  std::uint32_t turn_;
  bool is_never_incremental_;
  // Stack address of the walk that may write here; 0 = none. A nested one only reads.
  std::atomic<std::uintptr_t> owner_;
  // The last stack and the one of the walk under way take turns.
  int which_is_last_;
  std::array<KeptStack, 2> stacks_;
  alignas(64) std::array<Remembered, 2 * kRulePairs> rules_;
};

inline std::uintptr_t StackWalker::word(std::uintptr_t address) const {
  return load_word(address + displacement_);
}

inline std::size_t StackWalker::pair_of(std::uintptr_t pc) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  static_assert(kRulePairs == 1024);
  return static_cast<std::size_t>((pc * kGolden) >> 54) * 2;
}

inline const UnwindRule& StackWalker::rule_of(std::uintptr_t pc, const Walk& walk,
                                              UnwindRule* found) {
  if (walk.may_use_rules) {
    const Remembered* const pair = &rules_[pair_of(pc)];
    if (pair[0].pc.load(std::memory_order_relaxed) == pc) return pair[0].rule;
    if (pair[1].pc.load(std::memory_order_relaxed) == pc) return pair[1].rule;
  }
  return look_rule_up(pc, walk, found);
}

inline StackWalker::Way StackWalker::way_of(const UnwindRule& rule) {
  if (rule.kind == UnwindRule::Kind::plain) {
    return rule.cfa_register == kRbp ? Way::by_rbp : Way::by_rsp;
  }
  return rule.kind == UnwindRule::Kind::outermost ? Way::outermost : Way::other;
}

inline void StackWalker::emit(const Position& at, std::uintptr_t frame_address,
                              const UnwindRule& rule, Walk* walk) {
  walk->out[walk->count++] = {reinterpret_cast<void*>(at.ip), frame_address};
  if (walk->fresh == nullptr) return;
  // Member by member: read again soon, and a whole copied from a temporary would be waited for.
  Kept& kept = walk->fresh->at(walk->fresh->last++);
  kept.ip = at.ip;
  kept.bp = at.bp;
  kept.frame_address = frame_address;
  kept.saved_rbp = rule.saved[0];
  kept.is_exact = at.ip == at.pc;
  kept.way = way_of(rule);
}

}  // namespace gpuidle::stacks
