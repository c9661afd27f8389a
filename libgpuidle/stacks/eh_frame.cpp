// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/eh_frame.h"

namespace gpuidle::stacks {
namespace {

using Kind = UnwindRule::Kind;
using Place = FrameRow::Place;

// Pointer encodings (DW_EH_PE_*): low half the format, high half what it is relative to.
enum : std::uint8_t {
  kPointerAbsolute = 0x00,
  kPointerUleb = 0x01,
  kPointerUdata2 = 0x02,
  kPointerUdata4 = 0x03,
  kPointerUdata8 = 0x04,
  kPointerSleb = 0x09,
  kPointerSdata2 = 0x0a,
  kPointerSdata4 = 0x0b,
  kPointerSdata8 = 0x0c,
  kPointerToPlace = 0x10,
  kPointerIndirect = 0x80,
  kPointerOmitted = 0xff,
};
// What every linker writes into .eh_frame_hdr: sorted pairs of 32-bit offsets from its own start.
constexpr std::uint8_t kSearchTableEncoding = 0x3b;

struct SearchEntry {
  std::int32_t begin;
  std::int32_t entry;
};

// The bytes of a CIE or FDE behind its length; empty where that makes no sense.
FrameBytes entry_at(const std::uint8_t* at) {
  FrameBytes head(at, at + 12);
  std::uint64_t length = head.read<std::uint32_t>();
  if (length == 0xffffffffu) length = head.read<std::uint64_t>();
  constexpr std::uint64_t kMaxEntry = 1u << 24;  // the largest seen is below 64 KiB
  if (length > kMaxEntry) length = 0;
  return FrameBytes(head.at(), head.at() + length);
}

// Reads the augmentation string's letters; false: one of them is not known.
bool read_augmentation(const char* letters, FrameBytes* bytes, CommonEntry* common) {
  if (*letters == '\0') return true;
  if (*letters != 'z') return false;
  common->has_augmentation_data = true;
  const std::uint64_t length = bytes->read_uleb();
  FrameBytes augmentation = *bytes;
  bytes->skip(length);
  for (++letters; *letters != '\0'; ++letters) {
    if (*letters == 'R') {
      common->pointer_encoding = augmentation.read<std::uint8_t>();
    } else if (*letters == 'S') {
      common->is_signal_frame = true;
    } else if (*letters == 'L') {
      augmentation.skip(1);
    } else if (*letters == 'P') {
      const auto encoding = augmentation.read<std::uint8_t>();
      augmentation.read_pointer(encoding & ~std::uint8_t{kPointerIndirect});
    } else {
      return false;
    }
  }
  return !augmentation.has_overrun();
}

bool read_common_entry(const std::uint8_t* at, CommonEntry* common) {
  FrameBytes bytes = entry_at(at);
  bytes.skip(sizeof(std::uint32_t));
  const auto version = bytes.read<std::uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* letters = reinterpret_cast<const char*>(bytes.at());
  while (bytes.read<std::uint8_t>() != 0) {
  }
  common->code_alignment = bytes.read_uleb();
  common->data_alignment = bytes.read_sleb();
  const std::uint64_t return_register =
      version == 1 ? bytes.read<std::uint8_t>() : bytes.read_uleb();
  if (bytes.has_overrun() || return_register != kRip) return false;
  if (!read_augmentation(letters, &bytes, common) || bytes.has_overrun()) return false;
  common->program = bytes;
  return true;
}

// The entry of the last function that begins at or before `pc`; nullptr: none. `*is_searchable`
// false: the module has no search table.
const std::uint8_t* find_entry(const std::uint8_t* hdr, std::uintptr_t pc, bool* is_searchable) {
  *is_searchable = hdr[0] == 1 && hdr[2] == kPointerUdata4 && hdr[3] == kSearchTableEncoding;
  if (!*is_searchable) return nullptr;
  FrameBytes head(hdr + 4, hdr + 4 + 12);
  if (head.read_pointer(hdr[1]) == 0 || head.has_overrun()) {
    *is_searchable = false;
    return nullptr;
  }
  const std::uint32_t count = head.read<std::uint32_t>();
  const auto* table = head.at();
  const auto wanted = static_cast<std::int64_t>(pc) -
                      static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(hdr));
  SearchEntry found{0, 0};
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    SearchEntry entry;
    __builtin_memcpy(&entry, table + std::size_t{middle} * sizeof(entry), sizeof(entry));
    if (entry.begin <= wanted) {
      found = entry;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? nullptr : hdr + found.entry;
}

// Where the row says that a register was saved, in words; false: in a way that a rule cannot hold.
bool reduce_saved(const FrameRow& row, std::size_t i, UnwindRule* rule) {
  const FrameRow::Saved& saved = row.saved[i];
  if (saved.place == Place::kept) return true;
  if (saved.place == Place::undefined) {
    rule->saved[i] = UnwindRule::kLost;
    return true;
  }
  const std::int32_t slot = saved.offset_bytes / 8;
  const bool is_by_rbp = saved.place == Place::at_register && saved.base == kRbp;
  if ((saved.place != Place::at_cfa && !is_by_rbp) || saved.offset_bytes % 8 != 0 ||
      slot <= UnwindRule::kLost || slot > INT16_MAX) {
    return false;
  }
  rule->saved[i] = static_cast<std::int16_t>(slot);
  if (is_by_rbp) rule->based_on_rbp = static_cast<std::uint8_t>(rule->based_on_rbp | 1u << i);
  return true;
}

bool reduce_return(const FrameRow& row, UnwindRule* rule) {
  const FrameRow::Saved& saved = row.saved[FrameRow::kReturn];
  if (saved.place == Place::in_register && saved.base != 0 && saved.base < kRip) {
    rule->return_register = saved.base;
    return true;
  }
  const std::int32_t slot = saved.offset_bytes / 8;
  if (saved.place != Place::at_cfa || saved.offset_bytes % 8 != 0 || slot < INT16_MIN ||
      slot > INT16_MAX) {
    return false;
  }
  rule->return_slot = static_cast<std::int16_t>(slot);
  return true;
}

UnwindRule reduce(const FrameRow& row, bool is_signal_frame) {
  UnwindRule rule;
  rule.kind = Kind::unsupported;
  rule.cfa_register = row.cfa_register;
  rule.is_cfa_in_memory = row.is_cfa_in_memory;
  rule.cfa_offset_bytes = row.cfa_offset_bytes;
  if (!row.is_cfa_known) return rule;
  if (is_signal_frame) {
    // Position of rsp in the ucontext that the kernel leaves at rsp: the one layout there is.
    constexpr std::int32_t kSavedRsp = 160;
    const bool is_kernels =
        row.is_cfa_in_memory && row.cfa_register == kRsp && row.cfa_offset_bytes == kSavedRsp;
    if (is_kernels) rule.kind = Kind::signal_frame;
    return rule;
  }
  if (row.saved[FrameRow::kReturn].place == Place::undefined) {
    rule.kind = Kind::outermost;
    return rule;
  }
  if (!reduce_return(row, &rule) || !reduce_saved(row, 0, &rule)) return rule;
  for (std::size_t i = 1; i < kPreserved.size(); ++i) {
    // Few frames ask for these; a frame that does stops the walk if they were lost below it.
    if (!reduce_saved(row, i, &rule)) rule.saved[i] = UnwindRule::kLost;
  }
  const bool is_by_rsp_or_rbp = rule.cfa_register == kRsp || rule.cfa_register == kRbp;
  if (!is_by_rsp_or_rbp || rule.return_register != 0 || rule.saved[0] == UnwindRule::kLost) {
    rule.kind = Kind::by_registers;
  } else if (rule.is_cfa_in_memory || rule.return_slot != -1 || (rule.based_on_rbp & 1) != 0) {
    rule.kind = Kind::uncommon;
  } else {
    rule.kind = Kind::plain;
  }
  return rule;
}

}  // namespace

std::uint64_t FrameBytes::read_uleb() {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = read<std::uint8_t>();
    if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80u) == 0) return value;
  }
}

std::int64_t FrameBytes::read_sleb() {
  std::uint64_t value = 0;
  for (unsigned shift = 0;;) {
    const auto byte = read<std::uint8_t>();
    if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
    shift += 7;
    if ((byte & 0x80u) != 0) continue;
    if (shift < 64 && (byte & 0x40u) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
}

std::uintptr_t FrameBytes::read_pointer(std::uint8_t encoding) {
  if (encoding == kPointerOmitted) return 0;
  const auto place = reinterpret_cast<std::uintptr_t>(at_);
  std::uint64_t value = 0;
  switch (encoding & 0x0fu) {
    case kPointerAbsolute:
    case kPointerUdata8:
    case kPointerSdata8:
      value = read<std::uint64_t>();
      break;
    case kPointerUleb:
      value = read_uleb();
      break;
    case kPointerSleb:
      value = static_cast<std::uint64_t>(read_sleb());
      break;
    case kPointerUdata2:
      value = read<std::uint16_t>();
      break;
    case kPointerUdata4:
      value = read<std::uint32_t>();
      break;
    case kPointerSdata2:
      value = static_cast<std::uint64_t>(read<std::int16_t>());
      break;
    case kPointerSdata4:
      value = static_cast<std::uint64_t>(read<std::int32_t>());
      break;
    default:
      has_overrun_ = true;
      break;
  }
  const std::uint8_t relative = encoding & 0xf0u;
  if (relative == kPointerToPlace) return place + value;
  if (relative != 0) has_overrun_ = true;
  return value;
}

void FrameBytes::skip(std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(end_ - at_)) {
    has_overrun_ = true;
    at_ = end_;
  } else {
    at_ += bytes;
  }
}

UnwindRule find_unwind_rule(const std::uint8_t* eh_frame_hdr, std::uintptr_t pc) {
  UnwindRule none;
  UnwindRule unsupported;
  unsupported.kind = Kind::unsupported;
  bool is_searchable = false;
  const std::uint8_t* const entry = find_entry(eh_frame_hdr, pc, &is_searchable);
  if (entry == nullptr) return is_searchable ? none : unsupported;
  FrameBytes bytes = entry_at(entry);
  // The distance to the common entry counts from where it stands.
  const std::uint8_t* const place = bytes.at();
  const auto distance = bytes.read<std::uint32_t>();
  CommonEntry common;
  if (bytes.has_overrun() || distance == 0 || !read_common_entry(place - distance, &common)) {
    return unsupported;
  }
  const std::uintptr_t begin = bytes.read_pointer(common.pointer_encoding);
  const std::uintptr_t size = bytes.read_pointer(common.pointer_encoding & 0x0fu);
  if (common.has_augmentation_data) bytes.skip(bytes.read_uleb());
  if (bytes.has_overrun()) return unsupported;
  if (pc < begin || pc - begin >= size) return none;
  FrameRow row;
  if (!run_frame_programs(common, bytes, begin, pc, &row)) return unsupported;
  return reduce(row, common.is_signal_frame);
}

}  // namespace gpuidle::stacks
