// SPDX-License-Identifier: Apache-2.0
//
// StackWalker where a frame address depends on more than ip, rsp and rbp: hand-written assembly,
// the loader's entry for lazy binding, prologues that align the stack. The walk starts once more
// then and follows all preserved registers.
#include "libgpuidle/stacks/native_stepper.h"
#include "libgpuidle/stacks/stack_memory.h"

namespace gpuidle::stacks {
namespace {

using Kind = UnwindRule::Kind;

constexpr std::uint32_t bit(std::uint8_t dwarf_register) {
  return std::uint32_t{1} << dwarf_register;
}
constexpr std::uint32_t kAllRegisters = (std::uint32_t{1} << kRegisterCount) - 1;

}  // namespace

// Registers, and which of them have values of the frame that the walk is at.
struct StackWalker::Known {
  Registers registers;
  std::uint32_t valid = kAllRegisters;
  bool is_exact = true;

  std::uintptr_t value(std::uint8_t which) const { return registers.values[which]; }
  bool has(std::uint8_t which) const { return (valid & bit(which)) != 0; }
  void set(std::uint8_t which, std::uintptr_t value) {
    registers.values[which] = value;
    valid |= bit(which);
  }
};

// Moves to the caller; anything but `complete` says why that cannot be done.
StackEnd StackWalker::step_with_registers(const UnwindRule& rule, std::uintptr_t lowest,
                                          Known* known) const {
  const std::uintptr_t sp = known->value(kRsp);
  if (!known->has(rule.cfa_register)) return StackEnd::unsupported_rule;
  std::uintptr_t cfa = known->value(rule.cfa_register) +
                       static_cast<std::uintptr_t>(std::int64_t{rule.cfa_offset_bytes});
  if (rule.is_cfa_in_memory) {
    if (!is_readable(cfa, lowest)) return StackEnd::out_of_stack;
    cfa = word(cfa);
  }
  if (cfa < sp || cfa > bounds_.end) return StackEnd::out_of_stack;
  std::uintptr_t return_address = 0;
  if (rule.return_register != 0) {
    if (!known->has(rule.return_register)) return StackEnd::unsupported_rule;
    return_address = known->value(rule.return_register);
  } else {
    const std::uintptr_t slot = word_at(cfa, rule.return_slot);
    if (!is_readable(slot, lowest)) return StackEnd::out_of_stack;
    return_address = word(slot);
  }
  Known caller{};
  caller.valid = 0;
  caller.is_exact = false;
  for (std::size_t i = 0; i < kPreserved.size(); ++i) {
    const std::uint8_t which = kPreserved[i];
    const bool is_by_rbp = (rule.based_on_rbp >> i & 1u) != 0;
    if (rule.saved[i] == UnwindRule::kLost || (is_by_rbp && !known->has(kRbp))) continue;
    if (rule.saved[i] == UnwindRule::kKept) {
      if (known->has(which)) caller.set(which, known->value(which));
      continue;
    }
    const std::uintptr_t slot = word_at(is_by_rbp ? known->value(kRbp) : cfa, rule.saved[i]);
    if (!is_readable(slot, lowest)) return StackEnd::out_of_stack;
    caller.set(which, word(slot));
  }
  caller.set(kRsp, cfa);
  caller.set(kRip, return_address);
  *known = caller;
  return StackEnd::complete;
}

// As step_over_signal(), with all that the kernel saved.
StackEnd StackWalker::step_over_signal_with_registers(Known* known, Walk* walk) {
  const std::uintptr_t context = known->value(kRsp);
  Position interrupted{};
  const Position at{known->value(kRip), context, 0, 0};
  const StackEnd end = step_over_signal(at, &interrupted, walk);
  if (end != StackEnd::complete) return end;
  for (std::uint8_t i = 0; i < kRegisterCount; ++i) {
    known->set(i, word(context_slot(context, i)));
  }
  known->is_exact = true;
  return StackEnd::complete;
}

StackEnd StackWalker::follow_with_registers(const Registers& start, Walk* walk) {
  Known known{start};
  UnwindRule found;
  while (walk->count < walk->max) {
    const std::uintptr_t ip = known.value(kRip);
    const Position at{ip, known.value(kRsp), known.value(kRbp), known.is_exact ? ip : ip - 1};
    const UnwindRule& rule = rule_of(at.pc, *walk, &found);
    StackEnd end = StackEnd::complete;
    switch (rule.kind) {
      case Kind::outermost:
        emit(at, outermost_frame_address(rule, at), rule, walk);
        return StackEnd::complete;
      case Kind::none:
        end = StackEnd::no_table;
        break;
      case Kind::unsupported:
        end = StackEnd::unsupported_rule;
        break;
      case Kind::signal_frame:
        end = step_over_signal_with_registers(&known, walk);
        break;
      case Kind::plain:
      case Kind::uncommon:
      case Kind::by_registers:
        end = step_with_registers(rule, walk->lowest, &known);
        break;
    }
    emit(at, end == StackEnd::complete ? known.value(kRsp) : 0, rule, walk);
    if (end != StackEnd::complete) return end;
    if (known.value(kRip) == 0) return StackEnd::complete;
  }
  return StackEnd::too_deep;
}

}  // namespace gpuidle::stacks
