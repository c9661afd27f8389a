// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/python_code_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#include "libgpuidle/stacks/python_lines.h"
#include "libgpuidle/stacks/stack_word.h"

namespace gpuidle::stacks {
namespace {

constexpr std::size_t kKnownEntries = 16384;
constexpr std::size_t kSetEntries = 4;
constexpr std::size_t kIndexEntries = 65536;  // twice the rows, so that probes stay short
constexpr std::size_t kMaxProbes = 64;
// Longer ones are cut; a copy is made inside a CUDA call of the program.
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxFileBytes = 4096;
constexpr std::size_t kMaxLineTableBytes = std::size_t{256} << 10;

// Signatures are never one of these.
constexpr std::uint64_t kEmpty = 0;
constexpr std::uint64_t kBeingWritten = 1;

template <typename T>
T load(const char* address) {
  T value;
  std::memcpy(&value, address, sizeof(value));
  return value;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ hash >> 32;
}

std::uint64_t up_to_eight_bytes(const char* bytes, std::size_t count) {
  if (count >= 8) return load<std::uint64_t>(bytes);
  std::uint64_t value = 0;
  while (count > 0) value = value << 8 | static_cast<unsigned char>(bytes[--count]);
  return value;
}

std::uint64_t hash_bytes(std::uint64_t hash, const char* bytes, std::size_t count) {
  for (std::size_t at = 0; at < count; at += 8) {
    hash = mix(hash, up_to_eight_bytes(bytes + at, count - at));
  }
  return hash;
}

// A str object's characters as they lie in memory.
struct Text {
  const char* bytes = nullptr;
  std::size_t count = 0;   // bytes
  std::uint8_t width = 1;  // bytes per character: 1 (Latin-1), 2, 4
};

// What follows reads an object whole or, from memory that may change or vanish, not at all: one
// failed read is remembered and spoils the result.
template <typename Memory>
class Reader {
 public:
  explicit Reader(Memory memory) : memory_(memory) {}
  bool ok() const { return ok_; }

  template <typename T>
  T get(const char* address) {
    T value{};
    ok_ = ok_ && memory_.load(address, &value);
    return value;
  }
  std::uint64_t up_to_eight_bytes(const char* bytes, std::size_t count) {
    if (count >= 8) return get<std::uint64_t>(bytes);
    std::uint64_t value = 0;
    while (count > 0) value = value << 8 | get<unsigned char>(bytes + --count);
    return value;
  }

  // False: not a compact string, which those in code objects are.
  bool text_of(const PythonLayout& layout, const char* object, Text* text) {
    constexpr std::uint32_t kCompact = 1u << 5;
    constexpr std::uint32_t kAscii = 1u << 6;
    if (object == nullptr) return false;
    const auto state = get<std::uint32_t>(object + kTextState);
    const std::uint32_t width = state >> 2 & 7u;
    const auto length = get<std::int64_t>(object + kTextLength);
    if (!ok_ || (state & kCompact) == 0 || length < 0) return false;
    if (width != 1 && width != 2 && width != 4) return false;
    text->bytes = object + ((state & kAscii) != 0 ? layout.text_ascii : layout.text_wide);
    text->width = static_cast<std::uint8_t>(width);
    text->count = static_cast<std::size_t>(length) * width;
    return true;
  }

  // Enough of a text to tell it from what may lie at the same address later.
  std::uint64_t mark_of_text(const PythonLayout& layout, const char* object) {
    Text text;
    if (!text_of(layout, object, &text)) return 0;
    const auto hash = get<std::int64_t>(object + kTextHash);
    if (hash != -1) return mix(text.count, static_cast<std::uint64_t>(hash));
    const std::size_t last = text.count < 8 ? 0 : text.count - 8;
    return mix(mix(text.count, up_to_eight_bytes(text.bytes, text.count)),
               up_to_eight_bytes(text.bytes + last, text.count - last));
  }

  std::uint64_t mark_of_bytes(const char* object) {
    if (object == nullptr) return 0;
    const auto count = static_cast<std::size_t>(get<std::int64_t>(object + kObjectSize));
    const std::size_t middle = count < 8 ? 0 : (count - 8) / 2;
    return mix(count, up_to_eight_bytes(object + kBytesText + middle, count - middle));
  }

  std::uint64_t signature_of(const PythonLayout& layout, const char* code) {
    const auto* name = get<const char*>(code + layout.code_name);
    const auto* file = get<const char*>(code + layout.code_filename);
    const auto* table = get<const char*>(code + layout.code_line_table);
    const auto address = [](const char* object) {
      return reinterpret_cast<std::uintptr_t>(object);
    };
    std::uint64_t hash = mix(address(code), address(name));
    hash = mix(hash, address(file) + 31 * address(table));
    hash = mix(hash, get<std::uint32_t>(code + layout.code_first_line));
    // Objects die and others take their addresses, often with all parts at the same places:
    // pointers alone named 20,000 of 20,000 replaced code objects wrongly.
    const std::uint32_t version =
        layout.code_version == 0 ? 0 : get<std::uint32_t>(code + layout.code_version);
    if (version != 0) {
      hash = mix(hash, version);
    } else {
      hash = mix(hash, mark_of_text(layout, name));
      hash = mix(hash, mark_of_text(layout, file));
      hash = mix(hash, mark_of_bytes(table));
    }
    return hash <= kBeingWritten ? hash + 2 : hash;
  }

 private:
  Memory memory_;
  bool ok_ = true;
};

void append_utf8(std::uint32_t character, std::string* out) {
  // Lone surrogates stand for bytes of a file name that were no text.
  if ((character >= 0xd800 && character < 0xe000) || character > 0x10ffff) character = 0xfffd;
  const auto put = [out](std::uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xc0 | character >> 6);
    put(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    put(0xe0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  } else {
    put(0xf0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3f));
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  }
}

std::string utf8(const char* bytes, std::size_t count, std::size_t width) {
  std::string out;
  out.reserve(count);
  for (std::size_t at = 0; at + width <= count; at += width) {
    std::uint32_t character = 0;
    std::memcpy(&character, bytes + at, width);
    append_utf8(character, &out);
  }
  return out;
}

bool is_internal(const Text& name, const Text& file) {
  // What 3.13 and later push for the call of a class. A real file has a path.
  constexpr std::string_view kShim = "__init__";
  return std::string_view(name.bytes, name.count) == kShim &&
         std::string_view(file.bytes, file.count) == kShim;
}

}  // namespace

struct alignas(16) PythonCodeTable::Known {
  std::atomic<std::uint64_t> signature;
  std::atomic<std::uint32_t> id;
};

// Immutable once its id has been given to anybody.
struct PythonCodeTable::Row {
  std::uint64_t hash;
  const char* text;  // name, file, line table
  std::uint32_t name_bytes;
  std::uint32_t file_bytes;
  std::uint32_t table_bytes;
  std::int32_t first_line;
  std::uint8_t name_width;
  std::uint8_t file_width;
  bool has_table;
};

// A code object as it lies in the interpreter's memory.
struct PythonCodeTable::Source {
  Text name;
  Text file;
  Text table;
  std::int32_t first_line = 0;
  bool has_table = false;
};

bool PythonCodeTable::prepare(const PythonLayout& layout) {
  layout_ = layout;
  constexpr std::size_t kKnownBytes = sizeof(Known) * kKnownEntries;
  constexpr std::size_t kIndexBytes = sizeof(std::atomic<std::uint32_t>) * kIndexEntries;
  constexpr std::size_t kRowBytes = sizeof(Row) * (kMaxCodes + std::size_t{1});
  void* memory = mmap(nullptr, kKnownBytes + kIndexBytes + kRowBytes + kTextBytes,
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  // Zero pages are valid objects of these types; touching them all would cost memory.
  char* at = static_cast<char*>(memory);
  known_ = reinterpret_cast<Known*>(at);
  index_ = reinterpret_cast<std::atomic<std::uint32_t>*>(at + kKnownBytes);
  rows_ = reinterpret_cast<Row*>(at + kKnownBytes + kIndexBytes);
  text_ = at + kKnownBytes + kIndexBytes + kRowBytes;
  return true;
}

bool PythonCodeTable::find_known(std::uint64_t signature, std::uint32_t* id) const {
  Known* const set = known_ + signature % (kKnownEntries / kSetEntries) * kSetEntries;
  for (std::size_t i = 0; i < kSetEntries; ++i) {
    if (set[i].signature.load(std::memory_order_acquire) != signature) continue;
    *id = set[i].id.load(std::memory_order_acquire);
    // Unchanged after the id was read: the two belong together (see remember()).
    if (set[i].signature.load(std::memory_order_relaxed) == signature) return true;
  }
  return false;
}

std::uint32_t PythonCodeTable::id_of(const char* code) {
  const std::uint64_t signature = Reader<DirectMemory>({}).signature_of(layout_, code);
  std::uint32_t id = kUnnamedCode;
  if (find_known(signature, &id)) return id;
  Source source;
  return read(code, &source) ? enter_as(signature, source) : note_unnamed();
}

std::uint32_t PythonCodeTable::id_of_peeked(const char* code, PeekWindows* windows,
                                            PeekedCode* copies) {
  Reader<PeekMemory> reader({windows});
  const std::uint64_t signature = reader.signature_of(layout_, code);
  if (!reader.ok()) return note_unnamed();
  std::uint32_t id = kUnnamedCode;
  if (find_known(signature, &id)) return id;
  Source source;
  if (!peek(code, windows, copies, &source)) return note_unnamed();
  // The object may have died while it was copied; then another's content would get its name.
  windows->forget();
  Reader<PeekMemory> again({windows});
  if (again.signature_of(layout_, code) != signature || !again.ok()) return note_unnamed();
  return enter_as(signature, source);
}

std::uint32_t PythonCodeTable::note_unnamed() {
  unnamed_.fetch_add(1, std::memory_order_relaxed);
  return kUnnamedCode;
}

std::uint32_t PythonCodeTable::enter_as(std::uint64_t signature, const Source& source) {
  const std::uint32_t id = is_internal(source.name, source.file) ? kInternalCode : enter(source);
  if (id == kUnnamedCode) return note_unnamed();
  remember(known_ + signature % (kKnownEntries / kSetEntries) * kSetEntries, signature, id);
  return id;
}

void PythonCodeTable::remember(Known* set, std::uint64_t signature, std::uint32_t id) {
  Known* entry = &set[signature >> 62];
  for (std::size_t i = 0; i < kSetEntries; ++i) {
    if (set[i].signature.load(std::memory_order_relaxed) == kEmpty) {
      entry = &set[i];
      break;
    }
  }
  // A reader that sees the new id also sees that the old signature is gone.
  std::uint64_t old = entry->signature.load(std::memory_order_relaxed);
  if (old == kBeingWritten ||
      !entry->signature.compare_exchange_strong(old, kBeingWritten, std::memory_order_acq_rel)) {
    return;  // another thread is at it; this one will find the content again
  }
  entry->id.store(id, std::memory_order_release);
  entry->signature.store(signature, std::memory_order_release);
}

bool PythonCodeTable::read(const char* code, Source* source) const {
  Reader<DirectMemory> reader({});
  if (!reader.text_of(layout_, load<const char*>(code + layout_.code_name), &source->name) ||
      !reader.text_of(layout_, load<const char*>(code + layout_.code_filename), &source->file)) {
    return false;
  }
  source->name.count = std::min(source->name.count, kMaxNameBytes);
  source->file.count = std::min(source->file.count, kMaxFileBytes);
  source->first_line = load<std::int32_t>(code + layout_.code_first_line);
  const auto* table = load<const char*>(code + layout_.code_line_table);
  if (table == nullptr) return true;
  const auto bytes = static_cast<std::size_t>(load<std::int64_t>(table + kObjectSize));
  source->has_table = bytes <= kMaxLineTableBytes;
  source->table = {table + kBytesText, source->has_table ? bytes : 0, 1};
  return true;
}

bool PythonCodeTable::peek(const char* code, PeekWindows* windows, PeekedCode* copies,
                           Source* source) const {
  Reader<PeekMemory> reader({windows});
  const auto* const name = reader.get<const char*>(code + layout_.code_name);
  const auto* const file = reader.get<const char*>(code + layout_.code_filename);
  const auto* const table = reader.get<const char*>(code + layout_.code_line_table);
  source->first_line = reader.get<std::int32_t>(code + layout_.code_first_line);
  if (!reader.ok() || !reader.text_of(layout_, name, &source->name) ||
      !reader.text_of(layout_, file, &source->file)) {
    return false;
  }
  const auto take = [windows](Text* text, char* copy, std::size_t most) {
    text->count = std::min(text->count, most);
    const bool is_whole = text->count == 0 || windows->copy(text->bytes, copy, text->count);
    text->bytes = copy;
    return is_whole;
  };
  static_assert(sizeof copies->name == kMaxNameBytes && sizeof copies->file == kMaxFileBytes &&
                sizeof copies->table == kMaxLineTableBytes);
  if (!take(&source->name, copies->name, kMaxNameBytes) ||
      !take(&source->file, copies->file, kMaxFileBytes)) {
    return false;
  }
  if (table == nullptr) return true;
  const auto bytes = static_cast<std::size_t>(reader.get<std::int64_t>(table + kObjectSize));
  source->has_table = reader.ok() && bytes <= kMaxLineTableBytes;
  source->table = {table + kBytesText, source->has_table ? bytes : 0, 1};
  return reader.ok() && take(&source->table, copies->table, kMaxLineTableBytes);
}

bool PythonCodeTable::holds(const Row& row, const Source& source, std::uint64_t hash) const {
  return row.hash == hash && row.first_line == source.first_line &&
         row.name_bytes == source.name.count && row.file_bytes == source.file.count &&
         row.table_bytes == source.table.count && row.name_width == source.name.width &&
         row.file_width == source.file.width && row.has_table == source.has_table &&
         std::memcmp(row.text, source.name.bytes, row.name_bytes) == 0 &&
         std::memcmp(row.text + row.name_bytes, source.file.bytes, row.file_bytes) == 0 &&
         (row.table_bytes == 0 || std::memcmp(row.text + row.name_bytes + row.file_bytes,
                                              source.table.bytes, row.table_bytes) == 0);
}

std::uint32_t PythonCodeTable::enter(const Source& source) {
  std::uint64_t hash = hash_bytes(static_cast<std::uint64_t>(source.first_line), source.name.bytes,
                                  source.name.count);
  hash = hash_bytes(hash, source.file.bytes, source.file.count);
  hash = hash_bytes(hash, source.table.bytes, source.table.count);
  std::uint32_t own = kUnnamedCode;
  for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
    std::atomic<std::uint32_t>& entry = index_[(hash + probe) % kIndexEntries];
    std::uint32_t id = entry.load(std::memory_order_acquire);
    if (id == 0) {
      if (own == kUnnamedCode) own = append(source, hash);
      if (own == kUnnamedCode) return kUnnamedCode;
      if (entry.compare_exchange_strong(id, own, std::memory_order_acq_rel)) return own;
    }
    if (holds(rows_[id], source, hash)) return id;
  }
  return own;
}

std::uint32_t PythonCodeTable::append(const Source& source, std::uint64_t hash) {
  const std::size_t bytes = source.name.count + source.file.count + source.table.count;
  std::size_t begin = text_used_.load(std::memory_order_relaxed);
  do {
    if (bytes > kTextBytes - begin) return kUnnamedCode;
  } while (!text_used_.compare_exchange_weak(begin, begin + bytes, std::memory_order_relaxed));
  std::uint32_t last = count_.load(std::memory_order_relaxed);
  do {
    if (last == kMaxCodes) return kUnnamedCode;
  } while (!count_.compare_exchange_weak(last, last + 1, std::memory_order_relaxed));
  char* at = text_ + begin;
  Row& row = rows_[last + 1];
  row.hash = hash;
  row.text = at;
  row.first_line = source.first_line;
  row.has_table = source.has_table;
  row.name_width = source.name.width;
  row.file_width = source.file.width;
  row.name_bytes = static_cast<std::uint32_t>(source.name.count);
  row.file_bytes = static_cast<std::uint32_t>(source.file.count);
  row.table_bytes = static_cast<std::uint32_t>(source.table.count);
  for (const Text* part : {&source.name, &source.file, &source.table}) {
    if (part->count != 0) std::memcpy(at, part->bytes, part->count);
    at += part->count;
  }
  return last + 1;
}

bool PythonCodeTable::describe(std::uint32_t id, PythonCode* code) const {
  if (id == kUnnamedCode || id > size()) return false;
  const Row& row = rows_[id];
  const char* const table = row.text + row.name_bytes + row.file_bytes;
  code->name = utf8(row.text, row.name_bytes, row.name_width);
  code->file = utf8(row.text + row.name_bytes, row.file_bytes, row.file_width);
  code->first_line = row.first_line;
  code->line_table = row.has_table ? reinterpret_cast<const unsigned char*>(table) : nullptr;
  code->line_table_bytes = row.table_bytes;
  return true;
}

std::uint32_t PythonCodeTable::line_of(std::uint32_t id, std::int32_t position) const {
  if (id == kUnnamedCode || id > size()) return 0;
  const Row& row = rows_[id];
  if (position == kNoPosition || (!row.has_table && position >= 0)) return 0;
  const char* const table = row.text + row.name_bytes + row.file_bytes;
  return python_line(layout_.lines, reinterpret_cast<const unsigned char*>(table), row.table_bytes,
                     row.first_line, position);
}

}  // namespace gpuidle::stacks
