// SPDX-License-Identifier: Apache-2.0
//
// Which interpreters are stood down from, and why. This program exports the names of an interpreter
// and pretends to be one; no real one is needed, free-threaded and debug builds least of all.
#include "libgpuidle/stacks/python_interpreter.h"

#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

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
const char* g_version_text = "";

}  // namespace

extern "C" {
__attribute__((visibility("default"))) alignas(8) char PyType_Type[512];
__attribute__((visibility("default"))) alignas(8) char PyCode_Type[512];
__attribute__((visibility("default"))) alignas(8) char _PyRuntime[1024];  // NOLINT: CPython's name
__attribute__((visibility("default"))) const char* Py_GetVersion() { return g_version_text; }
__attribute__((visibility("default"))) int Py_IsInitialized() { return 0; }
__attribute__((visibility("default"))) void* PyGILState_GetThisThreadState() { return nullptr; }
}

namespace gpuidle::stacks {
namespace {

template <typename T>
void store(char* address, T value) {
  std::memcpy(address, &value, sizeof(value));
}

void set_word(std::size_t index, std::uint64_t value) { store(_PyRuntime + 16 + 8 * index, value); }

// All that a release build of this version says about itself.
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
    set_word(words.thread_frame, layout.thread_frame);
    set_word(words.thread_id, layout.thread_id);
    set_word(words.frame_previous, layout.frame_previous);
    set_word(words.frame_code, layout.frame_code);
    set_word(words.frame_position, layout.frame_position);
    set_word(words.frame_kind, layout.frame_kind);
    set_word(words.code_filename, layout.code_filename);
    set_word(words.code_name, layout.code_name);
    set_word(words.code_line_table, layout.code_line_table);
    set_word(words.code_first_line, layout.code_first_line);
    set_word(words.code_instructions, layout.code_instructions);
  }
}

struct Found {
  PythonSupport support;
  std::string reason;
  PythonInterpreter python;
};

Found find() {
  Found found;
  found.support = find_python(&found.python, &found.reason);
  return found;
}

const PythonLayout& layout(int minor) { return *python_layout(minor); }

}  // namespace

TEST_CASE("an interpreter that is laid out as its version should be is supported",
          "[stacks][unit]") {
  for (const PythonLayout& row : kPythonLayouts) {
    const std::string text = "3." + std::to_string(row.minor) + ".4 (main, Jan  1 2024) [GCC]";
    pretend(text.c_str(), row);
    const Found found = find();
    CHECK(found.reason == "");
    CHECK(found.support == PythonSupport::supported);
    CHECK(found.python.layout == &row);
    CHECK(found.python.code_type == reinterpret_cast<std::uintptr_t>(&PyCode_Type));
  }
}

TEST_CASE("versions without a table, and those not released yet, are refused by name",
          "[stacks][unit]") {
  const auto reason_of = [](const char* text) {
    pretend(text, layout(12));
    const Found found = find();
    CHECK(found.support == PythonSupport::refused);
    return found.reason;
  };
  CHECK(reason_of("3.7.16 (default)") == "CPython 3.7.16: supported are 3.8 to 3.15");
  CHECK(reason_of("3.16.0 (main)") == "CPython 3.16.0: supported are 3.8 to 3.15");
  CHECK(reason_of("2.7.18 (default)") == "CPython 2.7.18: supported are 3.8 to 3.15");
  CHECK(reason_of("3.12.0a4 (main)") ==
        "CPython 3.12.0a4: alpha and beta versions are not supported");
  CHECK(reason_of("3.12.0b1+ (main)") ==
        "CPython 3.12.0b1+: alpha and beta versions are not supported");
  CHECK(reason_of("") == "CPython of unknown version: supported are 3.8 to 3.15");
  pretend("3.12.0rc2+ (main)", layout(12));
  CHECK(find().support == PythonSupport::supported);
}

TEST_CASE("a free-threaded build is refused by name", "[stacks][unit]") {
  pretend("3.13.1 experimental free-threading build (main) [GCC]", layout(13));
  CHECK(find().reason == "CPython 3.13.1 (free-threaded): free-threaded builds are not supported");
  pretend("3.14.0 free-threading build (main) [GCC]", layout(14));
  CHECK(find().support == PythonSupport::refused);
}

TEST_CASE("a struct that is not as the table says is refused, and the field is named",
          "[stacks][unit]") {
  SECTION("code objects, by their type's list of members") {
    pretend("3.10.2 (main)", layout(10));
    g_members[1].offset += 8;
    CHECK(find().reason ==
          "CPython 3.10.2: its co_filename is not where this version's release has it");
  }
  SECTION("the instructions, by the size of a code object") {
    pretend("3.11.2 (main)", layout(11));
    store(PyCode_Type + 32, std::int64_t{192});
    CHECK(find().support == PythonSupport::refused);
  }
  SECTION("thread states and frames, by the interpreter's own offsets") {
    for (const DebugOffsetWords& words : kDebugOffsetWords) {
      for (const std::uint8_t index :
           {words.thread_frame, words.thread_id, words.frame_previous, words.frame_code,
            words.frame_position, words.frame_kind, words.code_instructions}) {
        const std::string text = "3." + std::to_string(words.minor) + ".0 (main)";
        pretend(text.c_str(), layout(words.minor));
        set_word(index, 4000);
        CHECK(find().support == PythonSupport::refused);
      }
    }
  }
  SECTION("no offsets of its own where there should be some") {
    pretend("3.13.0 (main)", layout(13));
    _PyRuntime[0] = '?';
    CHECK(find().support == PythonSupport::refused);
  }
  SECTION("objects with more in front of their type") {
    pretend("3.9.2 (main)", layout(9));
    store(PyCode_Type + 8, &PyCode_Type[0]);
    CHECK(find().reason == "CPython 3.9.2: its objects do not begin as those of a release build");
  }
}

// Last: the loader never unloads what a lookup has found.
TEST_CASE("a debug build is refused by what only debug builds export", "[stacks][unit]") {
  pretend("3.12.0 (main)", layout(12));
  REQUIRE(find().support == PythonSupport::supported);
  void* const marker = dlopen(PYTHON_DEBUG_MARKER, RTLD_NOW | RTLD_GLOBAL);
  REQUIRE(marker != nullptr);
  CHECK(find().reason == "CPython 3.12.0: debug builds are not supported");
}

}  // namespace gpuidle::stacks
