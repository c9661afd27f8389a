// SPDX-License-Identifier: Apache-2.0
//
// Where CPython keeps what a stack needs: one row of byte offsets per minor version (x86-64, builds
// with a GIL, release builds). Measured by compiling against each version's internal headers; what
// an interpreter says about itself is compared with its row before the row is used
// (python_interpreter.cpp). Read by the walk, the code table and the line tables.
#pragma once

#include <cstdint>

namespace gpuidle::stacks {

/// How a thread's frames hang together.
enum class FrameChain : std::uint8_t {
  frame_objects,   ///< 3.8, 3.9: one C call of the evaluation loop per frame, no address of it
  paired_cframes,  ///< 3.10: as before, and a list of structs on the C stack, one per frame
  cframe_runs,     ///< 3.11: a struct on the C stack per run of frames, which ends at `is_entry`
  cframe_shims,    ///< 3.12: runs end at a frame that lies on the C stack; reached by the struct
  shims,           ///< 3.13 and later: the same, reached from the thread state
};

/// How a code object's line table is written.
enum class LineTable : std::uint8_t {
  increments,  ///< 3.8, 3.9: co_lnotab
  ranges,      ///< 3.10: co_linetable of (bytes, line delta)
  locations,   ///< 3.11 and later: co_linetable of location entries
};

/// Offsets in bytes from the start of each struct. 0 also stands for a field that this version does
/// not have; the chain tells which it has.
struct PythonLayout {
  std::uint8_t minor;  ///< of CPython 3
  FrameChain chain;
  LineTable lines;

  // PyThreadState
  std::uint16_t thread_frame;   ///< innermost frame; 0: it hangs on the cframe
  std::uint16_t thread_cframe;  ///< innermost _PyCFrame
  std::uint16_t thread_id;      ///< pthread_self() of the thread that runs it

  // _PyCFrame
  std::uint16_t cframe_frame;
  std::uint16_t cframe_previous;

  // PyFrameObject (to 3.10) or _PyInterpreterFrame
  std::uint16_t frame_code;
  std::uint16_t frame_previous;
  std::uint16_t frame_position;  ///< last instruction: an int to 3.10, a pointer from 3.11
  std::uint16_t frame_kind;      ///< 3.11: is_entry; from 3.12: owner

  // PyCodeObject
  std::uint16_t code_first_line;
  std::uint16_t code_filename;
  std::uint16_t code_name;  ///< the qualified one from 3.11
  std::uint16_t code_line_table;
  std::uint16_t code_instructions;  ///< the instructions themselves, from 3.11
  std::uint16_t code_version;       ///< number that no other code object has; 0: none

  // PyUnicodeObject: where the text of a compact one begins
  std::uint16_t text_ascii;
  std::uint16_t text_wide;
};

// What has not moved since 3.8.
inline constexpr std::uint16_t kObjectType = 8;
inline constexpr std::uint16_t kObjectSize = 16;
inline constexpr std::uint16_t kBytesText = 32;
inline constexpr std::uint16_t kTextLength = 16;  ///< in characters
inline constexpr std::uint16_t kTextHash = 24;    ///< -1 until somebody asks for it
inline constexpr std::uint16_t kTextState = 32;
/// `frame_kind` from 3.12: this and what is above are no Python code but the entry of a C call.
inline constexpr std::uint8_t kOwnerOnCStack = 3;

// clang-format off
inline constexpr PythonLayout kPythonLayouts[] = {
    // minor, chain, line table; thread: frame, cframe, id; cframe: frame, previous; frame: code,
    // previous, position, kind; code: line, file, name, table, instructions, version; text
    { 8, FrameChain::frame_objects,  LineTable::increments, 24,  0, 176, 0,  0, 32, 24, 104,  0, 40, 104, 112, 120,   0,  0, 48, 72},
    { 9, FrameChain::frame_objects,  LineTable::increments, 24,  0, 176, 0,  0, 32, 24, 104,  0, 40, 104, 112, 120,   0,  0, 48, 72},
    {10, FrameChain::paired_cframes, LineTable::ranges,     24, 48, 176, 0,  8, 32, 24,  96,  0, 40, 104, 112, 120,   0,  0, 48, 72},
    {11, FrameChain::cframe_runs,    LineTable::locations,   0, 56, 152, 8, 16, 32, 48,  56, 68, 72, 112, 128, 136, 184,  0, 48, 72},
    {12, FrameChain::cframe_shims,   LineTable::locations,   0, 56, 136, 0,  8,  0,  8,  56, 70, 68, 112, 128, 136, 192, 92, 40, 56},
    {13, FrameChain::shims,          LineTable::locations,  72,  0, 152, 0,  0,  0,  8,  56, 70, 68, 112, 128, 136, 200, 92, 40, 56},
    {14, FrameChain::shims,          LineTable::locations,  72,  0, 152, 0,  0,  0,  8,  56, 74, 68, 112, 128, 136, 208, 92, 40, 56},
    {15, FrameChain::shims,          LineTable::locations,  72,  0, 176, 0,  0,  0,  8,  56, 74, 68, 112, 128, 136, 208,  0, 40, 56},
};
// clang-format on

/// The row of CPython 3.`minor`, nullptr: none.
constexpr const PythonLayout* python_layout(int minor) {
  for (const PythonLayout& layout : kPythonLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

/// From 3.13 an interpreter carries offsets of its own (_Py_DebugOffsets). Which of its 64-bit
/// words, counted from the one that tells free-threaded builds, holds which of ours.
struct DebugOffsetWords {
  std::uint8_t minor;
  std::uint8_t thread_frame;
  std::uint8_t thread_id;
  std::uint8_t frame_previous;
  std::uint8_t frame_code;
  std::uint8_t frame_position;
  std::uint8_t frame_kind;
  std::uint8_t code_filename;
  std::uint8_t code_name;
  std::uint8_t code_line_table;
  std::uint8_t code_first_line;
  std::uint8_t code_instructions;
};

// clang-format off
inline constexpr DebugOffsetWords kDebugOffsetWords[] = {
    {13, 21, 22, 27, 28, 29, 31, 33, 35, 36, 37, 41},
    {14, 24, 25, 30, 31, 32, 34, 38, 40, 41, 42, 46},
    {15, 24, 28, 37, 38, 39, 41, 45, 47, 48, 49, 53},
};
// clang-format on

}  // namespace gpuidle::stacks
