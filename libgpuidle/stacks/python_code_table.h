// SPDX-License-Identifier: Apache-2.0
//
// Copies of what names a Python code object, taken when a stack meets it for the first time: the
// object may be gone when somebody asks for the name. Filled by hooks of any thread, read by the
// drain thread. Lies in memory of its own; nothing is ever removed, so that an id keeps its
// meaning.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "libgpuidle/stacks/peek_memory.h"
#include "libgpuidle/stacks/python_layouts.h"

namespace gpuidle::stacks {

/// A code object by its content; texts are UTF-8.
struct PythonCode {
  std::string name;  ///< qualified from 3.11
  std::string file;
  std::int32_t first_line = 0;
  const unsigned char* line_table = nullptr;  ///< nullptr: too long to be kept
  std::size_t line_table_bytes = 0;
};

/// Room for the content of one code object that is read through the kernel.
struct PeekedCode {
  char name[1024];
  char file[4096];
  char table[std::size_t{256} << 10];
};

class PythonCodeTable {
 public:
  /// Of frames that CPython pushes for itself; they are not shown.
  static constexpr std::uint32_t kInternalCode = 0x7fffffff;
  static constexpr std::uint32_t kMaxCodes = 32767;
  static constexpr std::size_t kTextBytes = std::size_t{16} << 20;

  /// Reserves the memory; pages are touched as they fill. False with errno set: none to be had.
  /// Context: control, once.
  bool prepare(const PythonLayout& layout);

  /// The id of a live code object: by its signature if that was seen before, else by its content,
  /// which is copied at first sight. kUnnamedCode: no room, or a text that is not understood.
  /// Lock-free; about 10 ns for a known one. `code` must be a code object of the interpreter that
  /// `layout` describes and stay alive. Context: hook.
  std::uint32_t id_of(const char* code);

  /// As id_of(), for a code object that is perhaps none, or goes away at any moment.
  /// Context: hook, also in a signal handler; `windows` and `copies` are the caller's alone.
  std::uint32_t id_of_peeked(const char* code, PeekWindows* windows, PeekedCode* copies);

  /// False: no such id. Context: drain, for ids that came through a ring.
  bool describe(std::uint32_t id, PythonCode* code) const;
  /// Line at `position` of code `id`; 0 = not known. Context: drain.
  std::uint32_t line_of(std::uint32_t id, std::int32_t position) const;

  /// Code objects with different content so far. Context: any.
  std::uint32_t size() const { return count_.load(std::memory_order_relaxed); }
  /// How often id_of() had no name to give. Context: any.
  std::uint64_t unnamed() const { return unnamed_.load(std::memory_order_relaxed); }

 private:
  struct Known;
  struct Row;
  struct Source;

  bool find_known(std::uint64_t signature, std::uint32_t* id) const;
  std::uint32_t note_unnamed();
  bool read(const char* code, Source* source) const;
  bool peek(const char* code, PeekWindows* windows, PeekedCode* copies, Source* source) const;
  std::uint32_t enter_as(std::uint64_t signature, const Source& source);
  std::uint32_t enter(const Source& source);
  std::uint32_t append(const Source& source, std::uint64_t hash);
  bool holds(const Row& row, const Source& source, std::uint64_t hash) const;
  static void remember(Known* set, std::uint64_t signature, std::uint32_t id);

  PythonLayout layout_{};
  Known* known_ = nullptr;                       // by signature, in sets of four
  std::atomic<std::uint32_t>* index_ = nullptr;  // by hash of the content
  Row* rows_ = nullptr;                          // [1, count_]
  char* text_ = nullptr;
  std::atomic<std::size_t> text_used_{0};
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint64_t> unnamed_{0};
};

}  // namespace gpuidle::stacks
