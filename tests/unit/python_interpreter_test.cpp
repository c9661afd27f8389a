// SPDX-License-Identifier: Apache-2.0
//
// Which interpreters are stood down from, and why. No real one is needed: python_pretender takes
// the place of free-threaded, debug and unknown builds.
#include "libgpuidle/stacks/python_interpreter.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/python_pretender.h"

namespace gpuidle::stacks {
namespace {

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
    move_file_name(8);
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
        set_debug_offset(index, 4000);
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
