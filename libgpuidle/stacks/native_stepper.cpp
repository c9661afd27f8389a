// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/native_stepper.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <type_traits>

#include "libgpuidle/stacks/stack_memory.h"
#include "libgpuidle/stacks/unwind_tables.h"

namespace gpuidle::stacks {
namespace {

using Kind = UnwindRule::Kind;

constexpr std::uintptr_t kRedZoneBytes = 128;

}  // namespace

Registers registers_of(const void* signal_context) {
  Registers registers{};
  const auto& context = *static_cast<const ucontext_t*>(signal_context);
  for (std::size_t i = 0; i < kRegisterCount; ++i) {
    registers.values[i] =
        static_cast<std::uintptr_t>(context.uc_mcontext.gregs[kContextRegisters[i]]);
  }
  return registers;
}

StackWalker* StackWalker::map_new() {
  static_assert(std::is_trivially_destructible_v<StackWalker>);
  void* memory = mmap(nullptr, sizeof(StackWalker), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<StackWalker*>(memory);
}

void StackWalker::unmap(StackWalker* walker) { munmap(walker, sizeof(StackWalker)); }

void StackWalker::set_bounds(StackBounds bounds) { set_copy(bounds, 0); }

void StackWalker::set_copy(StackBounds bounds, std::uintptr_t displacement) {
  bounds_ = bounds;
  displacement_ = displacement;
  forget_stack();
  owner_.store(0, std::memory_order_relaxed);
}

bool StackWalker::is_readable(std::uintptr_t address, std::uintptr_t lowest) const {
  return address >= lowest && address <= bounds_.end - sizeof(std::uintptr_t);
}

// False: a handler interrupted a walk of this walker, which is still under way below.
bool StackWalker::enter(std::uintptr_t here) {
  const std::uintptr_t owner = owner_.load(std::memory_order_relaxed);
  if (owner != 0) {
    // A handler that jumped out of an interrupted walk left it unfinished for ever: its frame is
    // gone when the stack does not reach that far down.
    const bool is_gone = bounds_.contains(here) && bounds_.contains(owner) && here >= owner;
    if (!is_gone) return false;
    forget_stack();
  }
  owner_.store(here, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return true;
}

void StackWalker::leave() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  owner_.store(0, std::memory_order_relaxed);
}

// Forgets what is no longer true. Called by the owner alone.
void StackWalker::renew(std::uint32_t generation) {
  if (generation_ == generation) return;
  if (generation_ != 0) {
    for (Remembered& remembered : rules_) remembered.pc.store(0, std::memory_order_relaxed);
  }
  forget_stack();
  // Last: until then a nested walk sees that it must not use the rules.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  generation_ = generation;
}

void StackWalker::remember_rule(std::uintptr_t pc, const UnwindRule& rule) {
  const std::size_t pair = pair_of(pc);
  std::size_t victim = pair + (turn_ & 1u);
  if (rules_[pair].pc.load(std::memory_order_relaxed) == 0) {
    victim = pair;
  } else if (rules_[pair + 1].pc.load(std::memory_order_relaxed) == 0) {
    victim = pair + 1;
  } else {
    ++turn_;
  }
  Remembered& entry = rules_[victim];
  // A nested walk reads, but does not write: the key comes last.
  entry.pc.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  entry.rule = rule;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  entry.pc.store(pc, std::memory_order_relaxed);
}

const UnwindRule& StackWalker::look_rule_up(std::uintptr_t pc, const Walk& walk,
                                            UnwindRule* found) {
  const std::uint8_t* const hdr = UnwindTables::find(pc);
  *found = hdr == nullptr ? UnwindRule() : find_unwind_rule(hdr, pc);
  // A place without a rule may be loaded over at any time.
  if (walk.is_owner && found->kind != Kind::none) remember_rule(pc, *found);
  return *found;
}

__attribute__((always_inline)) inline bool StackWalker::step(const UnwindRule& rule,
                                                             const Position& at,
                                                             std::uintptr_t lowest,
                                                             Position* next) const {
  std::uintptr_t cfa = rule.cfa_register == kRbp ? at.bp : at.sp;
  cfa += static_cast<std::uintptr_t>(std::int64_t{rule.cfa_offset_bytes});
  if (rule.is_cfa_in_memory) {
    if (!is_readable(cfa, lowest)) return false;
    cfa = word(cfa);
  }
  const std::uintptr_t return_slot = word_at(cfa, rule.return_slot);
  if (cfa <= at.sp || cfa > bounds_.end || !is_readable(return_slot, lowest)) return false;
  next->bp = at.bp;
  if (rule.saved[0] != UnwindRule::kKept) {
    const std::uintptr_t slot = word_at((rule.based_on_rbp & 1u) != 0 ? at.bp : cfa, rule.saved[0]);
    if (!is_readable(slot, lowest)) return false;
    next->bp = word(slot);
  }
  next->ip = word(return_slot);
  next->sp = cfa;
  next->pc = next->ip - 1;
  return true;
}

inline bool StackWalker::meets_last_stack(const Position& at, Walk* walk) {
  KeptStack& last = *walk->last;
  int i = walk->old;
  while (i < last.last && last.sp_of(i) < at.sp) ++i;
  walk->old = i;
  return i < last.last && last.sp_of(i) == at.sp && last.at(i).ip == at.ip &&
         last.at(i).is_exact == (at.ip == at.pc);
}

// The walk is at a frame of the last stack. True: all that lay outside of it is there too, and the
// walk is done. Else `*at` becomes the outermost frame known to be the same.
bool StackWalker::splice(Walk* walk, Position* at) {
  KeptStack& last = *walk->last;
  int i = walk->old;
  // ip and rsp decide on the rule; the words that are compared, and rbp where it counts, on the
  // caller's ip and rsp: so each frame that follows is proven, not guessed. rbp itself is read
  // anew: in code without frame pointers it holds what it likes.
  int same = i;
  std::uintptr_t bp = at->bp;
  // A copy of the member: what is written to `walk` could change it, for all the compiler knows.
  const std::uintptr_t displacement = displacement_;
  for (; same + 1 < last.last; ++same) {
    const Kept& frame = last.at(same);
    if (frame.way != Way::by_rsp && (frame.way != Way::by_rbp || frame.bp != bp)) break;
    if (load_word(frame.frame_address - 8 + displacement) != last.at(same + 1).ip) break;
    if (frame.saved_rbp != UnwindRule::kKept) {
      bp = load_word(word_at(frame.frame_address, frame.saved_rbp) + displacement);
    }
  }
  const bool is_whole = same + 1 == last.last && last.at(same).way == Way::outermost;
  walk->has_shared = is_whole && last.last - i <= walk->max - walk->count;
  const int shown = walk->has_shared ? last.last : same;
  for (; i < shown && walk->count < walk->max; ++i) {
    const Kept& frame = last.at(i);
    walk->out[walk->count++] = {reinterpret_cast<void*>(frame.ip), frame.frame_address};
    if (!walk->has_shared) walk->fresh->at(walk->fresh->last++) = frame;
  }
  if (walk->has_shared) return true;
  if (i == same) {
    const std::uintptr_t ip = last.at(i).ip;
    *at = {ip, last.sp_of(i), bp, last.at(i).is_exact ? ip : ip - 1};
  }
  walk->old = i + 1;
  return false;
}

StackEnd StackWalker::step_over_signal(const Position& at, Position* next, Walk* walk) {
  walk->has_signal_frame = true;
  if (!is_readable(context_slot(at.sp, kRip), walk->lowest)) return StackEnd::out_of_stack;
  next->ip = word(context_slot(at.sp, kRip));
  next->sp = word(context_slot(at.sp, kRsp));
  next->bp = word(context_slot(at.sp, kRbp));
  next->pc = next->ip;
  // A handler's own stack is another one, and below it is not where this one goes on.
  const bool is_here = next->sp > at.sp && bounds_.contains(next->sp);
  return is_here ? StackEnd::complete : StackEnd::out_of_stack;
}

// Goes to the caller's frame by a rule that may be of any kind.
StackEnd StackWalker::leave_frame(const UnwindRule& rule, const Position& at, Position* next,
                                  Walk* walk) {
  switch (rule.kind) {
    case Kind::plain:
    case Kind::uncommon:
      return step(rule, at, walk->lowest, next) ? StackEnd::complete : StackEnd::out_of_stack;
    case Kind::signal_frame:
      return step_over_signal(at, next, walk);
    case Kind::by_registers:
      walk->needs_registers = true;
      return StackEnd::unsupported_rule;
    case Kind::outermost:
      *next = {0, outermost_frame_address(rule, at), 0, 0};
      return StackEnd::complete;
    case Kind::none:
      return StackEnd::no_table;
    case Kind::unsupported:
      break;
  }
  return StackEnd::unsupported_rule;
}

// What a walk does where nothing but ip, rsp and rbp is asked for: nearly always. Positions stay in
// registers: passed on by address only where something is out of the ordinary.
StackEnd StackWalker::follow(Position at, Walk* walk) {
  UnwindRule found;
  while (true) {
    if (walk->last != nullptr && meets_last_stack(at, walk)) {
      Position spliced = at;
      if (splice(walk, &spliced)) return StackEnd::complete;
      at = spliced;
    }
    if (walk->count == walk->max) return StackEnd::too_deep;
    const UnwindRule& rule = rule_of(at.pc, *walk, &found);
    Position next;
    if (rule.kind != Kind::plain || !step(rule, at, walk->lowest, &next)) {
      Position other;
      const StackEnd end = leave_frame(rule, at, &other, walk);
      if (end != StackEnd::complete) {
        emit(at, 0, rule, walk);
        return end;
      }
      next = other;
    }
    emit(at, next.sp, rule, walk);
    if (next.ip == 0) return StackEnd::complete;
    at = next;
  }
}

std::uintptr_t StackWalker::outermost_frame_address(const UnwindRule& rule,
                                                    const Position& at) const {
  if (rule.cfa_register != kRsp || rule.is_cfa_in_memory) return 0;
  const std::uintptr_t cfa =
      at.sp + static_cast<std::uintptr_t>(std::int64_t{rule.cfa_offset_bytes});
  return cfa >= at.sp && cfa <= bounds_.end ? cfa : 0;
}

void StackWalker::prepare_to_keep(std::uintptr_t sp, Walk* walk) {
  if (is_never_incremental_) return;
  const auto last = static_cast<std::size_t>(which_is_last_);
  walk->last = &stacks_[last];
  walk->old = walk->last->first;
  walk->fresh = &stacks_[last ^ 1u];
  walk->fresh->first = walk->fresh->last = kMaxFrames;
  walk->fresh->first_sp = sp;
}

void StackWalker::keep(Walk* walk) {
  KeptStack& fresh = *walk->fresh;
  if (!walk->has_shared) {
    which_is_last_ ^= 1;
    return;
  }
  KeptStack& last = *walk->last;
  const int count = fresh.last - fresh.first;
  // Never below 0: a stack starts in the middle and grows by what it lost before at most.
  last.first = walk->old - count;
  last.first_sp = fresh.first_sp;
  for (int i = 0; i < count; ++i) last.at(last.first + i) = fresh.at(fresh.first + i);
}

WalkResult StackWalker::walk(const Registers& start, NativeFrame* frames, int max_frames) {
  Walk walk{frames, std::min(max_frames, kMaxFrames)};
  if (walk.max <= 0) return {0, StackEnd::too_deep, false};
  const Position at{start.values[kRip], start.values[kRsp], start.values[kRbp], start.values[kRip]};
  if (!bounds_.contains(at.sp)) {
    frames[0] = {reinterpret_cast<void*>(at.ip), 0};
    return {1, StackEnd::out_of_stack, false};
  }
  // Where a function has popped its registers and is about to return, its rule still names their
  // old places below rsp: in the 128 bytes there that no signal handler touches.
  walk.lowest = std::max(bounds_.begin, at.sp - kRedZoneBytes);
  walk.is_owner = enter(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  const std::uint32_t generation = UnwindTables::generation();
  if (walk.is_owner) {
    renew(generation);
    prepare_to_keep(at.sp, &walk);
  }
  walk.may_use_rules = generation_ == generation;
  walk.end = follow(at, &walk);
  if (walk.needs_registers) {
    walk.fresh = nullptr;
    walk.count = 0;
    walk.end = follow_with_registers(start, &walk);
  }
  if (walk.is_owner) {
    if (walk.fresh != nullptr) {
      keep(&walk);
    } else {
      forget_stack();
    }
    leave();
  }
  return {walk.count, walk.end, walk.has_signal_frame};
}

}  // namespace gpuidle::stacks
