// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/python_pretender.h"

#include <array>

namespace {

// PyMemberDef
struct Member {
  const char* name;
  std::int64_t type;
  std::int64_t offset;
  std::int64_t flags;
  const char* documentation;
};
static_assert(sizeof(Member) == 40);

std::array<Member, 5> g_members;
const char* g_version_text = "3.13.0 experimental free-threading build (main) [GCC]";
char* g_thread_state = nullptr;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
alignas(8) char PyType_Type[512];
alignas(8) char PyCode_Type[512];
alignas(8) char _PyRuntime[1024];  // NOLINT: CPython's name
const char* Py_GetVersion() { return g_version_text; }
int Py_IsInitialized() { return g_thread_state != nullptr ? 1 : 0; }
void* PyGILState_GetThisThreadState() { return g_thread_state; }
}
#pragma GCC visibility pop

namespace gpuidle::stacks {

void pretend(const char* version_text, const PythonLayout& layout) {
  g_version_text = version_text;
  const bool is_qualified = layout.lines == LineTable::locations;
  g_members = {{{"co_firstlineno", 0, layout.code_first_line, 0, ""},
                {"co_filename", 0, layout.code_filename, 0, ""},
                {is_qualified ? "co_qualname" : "co_name", 0, layout.code_name, 0, ""},
                {layout.lines == LineTable::increments ? "co_lnotab" : "co_linetable", 0,
                 layout.code_line_table, 0, ""},
                {nullptr, 0, 0, 0, nullptr}}};
  store(PyCode_Type + 8, &PyType_Type[0]);
  store(PyCode_Type + 32, std::int64_t{layout.code_instructions});
  store(PyCode_Type + 240, g_members.data());
  std::memset(_PyRuntime, 0, sizeof(_PyRuntime));
  for (const DebugOffsetWords& words : kDebugOffsetWords) {
    if (words.minor != layout.minor) continue;
    std::memcpy(_PyRuntime, "xdebugpy", 8);
    set_debug_offset(words.thread_frame, layout.thread_frame);
    set_debug_offset(words.thread_id, layout.thread_id);
    set_debug_offset(words.frame_previous, layout.frame_previous);
    set_debug_offset(words.frame_code, layout.frame_code);
    set_debug_offset(words.frame_position, layout.frame_position);
    set_debug_offset(words.frame_kind, layout.frame_kind);
    set_debug_offset(words.code_filename, layout.code_filename);
    set_debug_offset(words.code_name, layout.code_name);
    set_debug_offset(words.code_line_table, layout.code_line_table);
    set_debug_offset(words.code_first_line, layout.code_first_line);
    set_debug_offset(words.code_instructions, layout.code_instructions);
  }
}

void move_file_name(std::int64_t bytes) { g_members[1].offset += bytes; }

void set_thread_state(char* thread_state) { g_thread_state = thread_state; }

}  // namespace gpuidle::stacks
