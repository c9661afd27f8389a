// SPDX-License-Identifier: Apache-2.0
//
// The call frame programs of eh_frame.h: instructions (DW_CFA_*) that build the row of a pc, and
// the few shapes of expressions that compilers and linkers write into them.
#include <algorithm>

#include "libgpuidle/stacks/eh_frame.h"

namespace gpuidle::stacks {
namespace {

using Place = FrameRow::Place;

enum Instruction : std::uint8_t {
  kNop = 0x00,
  kSetLocation = 0x01,
  kAdvance1 = 0x02,
  kAdvance2 = 0x03,
  kAdvance4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefineCfa = 0x0c,
  kDefineCfaRegister = 0x0d,
  kDefineCfaOffset = 0x0e,
  kDefineCfaExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSigned = 0x11,
  kDefineCfaSigned = 0x12,
  kDefineCfaOffsetSigned = 0x13,
  kValueOffset = 0x14,
  kValueOffsetSigned = 0x15,
  kValueExpression = 0x16,
  kArgumentsSize = 0x2e,
  kNegativeOffsetExtended = 0x2f,
  // Two high bits; the low six are an operand.
  kAdvance = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
};
enum Operation : std::uint8_t { kDeref = 0x06, kBaseRegister0 = 0x70, kBaseRegister31 = 0x8f };

// Index in FrameRow::saved; -1: a register that nobody follows.
int index_of(std::uint64_t dwarf_register) {
  if (dwarf_register == kRip) return static_cast<int>(FrameRow::kReturn);
  const auto* found = std::find(kPreserved.begin(), kPreserved.end(), dwarf_register);
  return found == kPreserved.end() ? -1 : static_cast<int>(found - kPreserved.begin());
}

// Value of an address that is a register and an offset, perhaps with a read behind it.
struct RegisterExpression {
  std::uint8_t base = 0;
  std::int32_t offset_bytes = 0;
  bool is_in_memory = false;
};

bool read_register_expression(FrameBytes bytes, RegisterExpression* out) {
  const auto operation = bytes.read<std::uint8_t>();
  if (operation < kBaseRegister0 || operation >= kBaseRegister0 + kRip) return false;
  out->base = static_cast<std::uint8_t>(operation - kBaseRegister0);
  out->offset_bytes = static_cast<std::int32_t>(bytes.read_sleb());
  if (!bytes.is_done()) out->is_in_memory = bytes.read<std::uint8_t>() == kDeref;
  return !bytes.has_overrun() && bytes.is_done();
}

// The linker's for the procedure linkage table, whose entries are 16 bytes and push a word at a
// fixed distance: CFA = rsp + 8 + ((rip & 15) >= distance) * 8.
bool read_linkage_table_expression(FrameBytes bytes, std::uintptr_t pc,
                                   std::int32_t* offset_bytes) {
  constexpr std::uint8_t kBegin[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a};
  constexpr std::uint8_t kEnd[] = {0x2a, 0x33, 0x24, 0x22};
  constexpr std::uint8_t kLiteral0 = 0x30;
  for (const std::uint8_t expected : kBegin) {
    if (bytes.read<std::uint8_t>() != expected) return false;
  }
  const auto literal = bytes.read<std::uint8_t>();
  if (literal < kLiteral0 || literal > kLiteral0 + 15) return false;
  for (const std::uint8_t expected : kEnd) {
    if (bytes.read<std::uint8_t>() != expected) return false;
  }
  *offset_bytes = (pc & 15u) >= static_cast<std::uintptr_t>(literal - kLiteral0) ? 16 : 8;
  return !bytes.has_overrun() && bytes.is_done();
}

class FrameProgram {
 public:
  FrameProgram(const CommonEntry& common, std::uintptr_t begin, std::uintptr_t pc, FrameRow* row)
      : common_(common), location_(begin), pc_(pc), row_(*row) {}

  bool run(FrameBytes bytes) {
    while (!bytes.is_done() && location_ <= pc_) {
      if (!execute(&bytes) || bytes.has_overrun()) return false;
    }
    return true;
  }
  // What a function's program returns to with `restore`.
  void keep_initial() { initial_ = row_; }

 private:
  bool execute(FrameBytes* bytes) {
    const auto code = bytes->read<std::uint8_t>();
    const std::uint8_t operand = code & 0x3fu;
    switch (code & 0xc0u) {
      case kAdvance:
        return advance(operand);
      case kOffset:
        return save(operand, factored(bytes->read_uleb()));
      case kRestore:
        return restore(operand);
      default:
        return execute_place(static_cast<Instruction>(code), bytes);
    }
  }

  bool execute_place(Instruction code, FrameBytes* bytes) {
    switch (code) {
      case kNop:
        return true;
      case kSetLocation:
        location_ = bytes->read_pointer(common_.pointer_encoding);
        return true;
      case kAdvance1:
        return advance(bytes->read<std::uint8_t>());
      case kAdvance2:
        return advance(bytes->read<std::uint16_t>());
      case kAdvance4:
        return advance(bytes->read<std::uint32_t>());
      case kArgumentsSize:
        bytes->read_uleb();
        return true;
      case kRememberState:
        if (depth_ == remembered_.size()) return false;
        remembered_[depth_++] = row_;
        return true;
      case kRestoreState:
        if (depth_ == 0) return false;
        row_ = remembered_[--depth_];
        return true;
      default:
        break;
    }
    return is_cfa_instruction(code) ? execute_cfa(code, bytes) : execute_saved(code, bytes);
  }

  static bool is_cfa_instruction(Instruction code) {
    return (code >= kDefineCfa && code <= kDefineCfaExpression) || code == kDefineCfaSigned ||
           code == kDefineCfaOffsetSigned;
  }

  bool execute_cfa(Instruction code, FrameBytes* bytes) {
    if (code == kDefineCfaExpression) return define_cfa_by_expression(bytes);
    if (code == kDefineCfa || code == kDefineCfaSigned || code == kDefineCfaRegister) {
      const std::uint64_t base = bytes->read_uleb();
      row_.is_cfa_known = base < kRip;
      row_.cfa_register = static_cast<std::uint8_t>(base);
      row_.is_cfa_in_memory = false;
    }
    if (code == kDefineCfa || code == kDefineCfaOffset) {
      row_.cfa_offset_bytes = static_cast<std::int32_t>(bytes->read_uleb());
    } else if (code != kDefineCfaRegister) {
      row_.cfa_offset_bytes = factored(static_cast<std::uint64_t>(bytes->read_sleb()));
    }
    return true;
  }

  bool define_cfa_by_expression(FrameBytes* bytes) {
    const FrameBytes body = take_block(bytes);
    RegisterExpression by_register;
    row_.is_cfa_in_memory = false;
    row_.cfa_register = kRsp;
    if (read_linkage_table_expression(body, pc_, &row_.cfa_offset_bytes)) {
      row_.is_cfa_known = true;
    } else if (read_register_expression(body, &by_register)) {
      row_.is_cfa_known = true;
      row_.cfa_register = by_register.base;
      row_.cfa_offset_bytes = by_register.offset_bytes;
      row_.is_cfa_in_memory = by_register.is_in_memory;
    } else {
      row_.is_cfa_known = false;  // a later row of the function may well be
    }
    return true;
  }

  bool execute_saved(Instruction code, FrameBytes* bytes) {
    const std::uint64_t which = bytes->read_uleb();
    switch (code) {
      case kOffsetExtended:
        return save(which, factored(bytes->read_uleb()));
      case kOffsetExtendedSigned:
        return save(which, factored(static_cast<std::uint64_t>(bytes->read_sleb())));
      case kNegativeOffsetExtended:
        return save(which, -factored(bytes->read_uleb()));
      case kRestoreExtended:
        return restore(which);
      case kUndefined:
        return set(which, {Place::undefined, 0, 0});
      case kSameValue:
        return set(which, {Place::kept, 0, 0});
      case kRegister: {
        const std::uint64_t other = bytes->read_uleb();
        if (other >= kRip) return set(which, {Place::unsupported, 0, 0});
        return set(which, {Place::in_register, static_cast<std::uint8_t>(other), 0});
      }
      case kValueOffset:
        bytes->read_uleb();
        return set(which, {Place::unsupported, 0, 0});
      case kValueOffsetSigned:
        bytes->read_sleb();
        return set(which, {Place::unsupported, 0, 0});
      case kValueExpression:
        take_block(bytes);
        return set(which, {Place::unsupported, 0, 0});
      case kExpression: {
        RegisterExpression place;
        if (!read_register_expression(take_block(bytes), &place) || place.is_in_memory) {
          return set(which, {Place::unsupported, 0, 0});
        }
        return set(which, {Place::at_register, place.base, place.offset_bytes});
      }
      default:
        return false;
    }
  }

  static FrameBytes take_block(FrameBytes* bytes) {
    const std::uint64_t length = bytes->read_uleb();
    const std::uint8_t* const begin = bytes->at();
    bytes->skip(length);
    return FrameBytes(begin, bytes->at());
  }

  std::int32_t factored(std::uint64_t value) const {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(value) * common_.data_alignment);
  }
  bool advance(std::uint64_t delta) {
    location_ += delta * common_.code_alignment;
    return true;
  }
  bool set(std::uint64_t which, FrameRow::Saved saved) {
    const int index = index_of(which);
    if (index >= 0) row_.saved[static_cast<std::size_t>(index)] = saved;
    return true;
  }
  bool save(std::uint64_t which, std::int32_t offset_bytes) {
    return set(which, {Place::at_cfa, 0, offset_bytes});
  }
  bool restore(std::uint64_t which) {
    const int index = index_of(which);
    return index < 0 || set(which, initial_.saved[static_cast<std::size_t>(index)]);
  }

  const CommonEntry& common_;
  std::uintptr_t location_;
  const std::uintptr_t pc_;
  FrameRow& row_;
  FrameRow initial_;
  // Compilers nest one deep; hand-written assembly two.
  std::array<FrameRow, 4> remembered_;
  std::size_t depth_ = 0;
};

}  // namespace

bool run_frame_programs(const CommonEntry& common, FrameBytes program, std::uintptr_t begin,
                        std::uintptr_t pc, FrameRow* row) {
  FrameProgram frame(common, begin, pc, row);
  if (!frame.run(common.program)) return false;
  frame.keep_initial();
  return frame.run(program);
}

}  // namespace gpuidle::stacks
