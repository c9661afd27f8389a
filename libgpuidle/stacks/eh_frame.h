// SPDX-License-Identifier: Apache-2.0
//
// How to get from a frame to its caller's, as compilers write it into .eh_frame, reduced to what a
// walk needs. Fed by the tables that unwind_tables finds, feeds StackWalker. x86-64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace gpuidle::stacks {

/// Registers by their DWARF numbers.
enum DwarfRegister : std::uint8_t {
  kRbx = 3,
  kRbp = 6,
  kRsp = 7,
  kR12 = 12,
  kR15 = 15,
  kRip = 16,
  kRegisterCount = 17,
};

/// The registers that a called function hands back as it found them, in the order of
/// UnwindRule::saved; rbp first, it alone matters to most rules.
inline constexpr std::array<std::uint8_t, 6> kPreserved = {kRbp, kRbx, 12, 13, 14, 15};

/// Rule of one instruction. The canonical frame address (CFA) is the stack pointer of the caller
/// after the return. Offsets are in words of 8 bytes unless named otherwise.
struct UnwindRule {
  enum class Kind : std::uint8_t {
    none,          ///< no rule: in no module, or between functions
    plain,         ///< CFA = rsp or rbp + offset, return address below it, rbp kept or saved by CFA
    uncommon,      ///< known from ip, rsp and rbp, but not plain
    by_registers,  ///< needs the value of a further register
    signal_frame,  ///< the kernel's: the interrupted registers are at rsp
    outermost,     ///< the return address is undefined: the stack ends here
    unsupported,
  };
  static constexpr std::int16_t kKept = std::numeric_limits<std::int16_t>::min();
  static constexpr std::int16_t kLost = kKept + 1;

  Kind kind = Kind::none;
  std::uint8_t cfa_register = kRsp;
  bool is_cfa_in_memory = false;     ///< CFA = word at register + offset
  std::uint8_t return_register = 0;  ///< register with the return address; 0 = in memory
  std::int32_t cfa_offset_bytes = 0;
  std::int16_t return_slot = -1;  ///< from CFA
  std::uint8_t based_on_rbp = 0;  ///< bit i: saved[i] counts from rbp, not from CFA
  /// Where kPreserved[i] was saved; kKept, or kLost where nobody can tell.
  std::array<std::int16_t, kPreserved.size()> saved = {kKept, kKept, kKept, kKept, kKept, kKept};
};
static_assert(sizeof(UnwindRule) == 24, "a cache entry of rule and key is half a cache line");

/// A row of call frame information while its program runs; the registers of kPreserved and rip.
struct FrameRow {
  enum class Place : std::uint8_t {
    kept,
    undefined,
    at_cfa,
    at_register,
    in_register,
    unsupported
  };
  struct Saved {
    Place place = Place::kept;
    std::uint8_t base = 0;  ///< register, for at_register and in_register
    std::int32_t offset_bytes = 0;
  };
  static constexpr std::size_t kReturn = kPreserved.size();  ///< index of rip in `saved`

  bool is_cfa_known = false;
  bool is_cfa_in_memory = false;
  std::uint8_t cfa_register = 0;
  std::int32_t cfa_offset_bytes = 0;
  std::array<Saved, kPreserved.size() + 1> saved{};
};

/// Bytes of .eh_frame; a read beyond the end gives 0 and is remembered.
class FrameBytes {
 public:
  FrameBytes(const std::uint8_t* at, const std::uint8_t* end) : at_(at), end_(end) {}
  template <typename T>
  T read() {
    T value{};
    if (static_cast<std::size_t>(end_ - at_) < sizeof(T)) {
      has_overrun_ = true;
      at_ = end_;
      return value;
    }
    __builtin_memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::uint64_t read_uleb();
  std::int64_t read_sleb();
  /// A pointer in one of the encodings of the Linux Standard Base; only those relative to nothing
  /// or to the place itself, others count as an overrun.
  std::uintptr_t read_pointer(std::uint8_t encoding);
  void skip(std::uint64_t bytes);
  const std::uint8_t* at() const { return at_; }
  const std::uint8_t* end() const { return end_; }
  bool is_done() const { return at_ >= end_; }
  bool has_overrun() const { return has_overrun_; }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool has_overrun_ = false;
};

/// What the common entry (CIE) says for all functions that name it.
struct CommonEntry {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation_data = false;
  bool is_signal_frame = false;
  FrameBytes program{nullptr, nullptr};
};

/// Runs the programs of a common entry and of a function that begins at `begin` up to `pc`. False:
/// something in them is not understood. Context: hook.
bool run_frame_programs(const CommonEntry& common, FrameBytes program, std::uintptr_t begin,
                        std::uintptr_t pc, FrameRow* row);

/// The rule of the instruction at `pc` out of the module whose .eh_frame_hdr is given. Reads mapped
/// tables, allocates nothing, takes no lock; 100 to 400 ns. Context: hook.
UnwindRule find_unwind_rule(const std::uint8_t* eh_frame_hdr, std::uintptr_t pc);

}  // namespace gpuidle::stacks
