// SPDX-License-Identifier: Apache-2.0
//
// What the table of code objects keeps and when it gives up, on objects made by hand in the layout
// of CPython 3.9 (signatures by content) and 3.12 (by version). ThreadSanitizer repeats these.
#include "libgpuidle/stacks/python_code_table.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "libgpuidle/stacks/stack_word.h"

namespace gpuidle::stacks {
namespace {

constexpr int kByContent = 9;
constexpr int kByVersion = 12;

// Memory of an object of the interpreter.
class Object {
 public:
  explicit Object(std::size_t bytes) : bytes_(bytes, '\0') {}
  template <typename T>
  void store(std::size_t offset, T value) {
    std::memcpy(&bytes_[offset], &value, sizeof(value));
  }
  char* address() { return bytes_.data(); }

 private:
  std::vector<char> bytes_;
};

// A compact str of `width` bytes per character; ASCII where that is 1 and all bytes are.
Object text_object(const PythonLayout& layout, const std::string& raw, std::uint32_t width = 1) {
  bool is_ascii = width == 1;
  for (const char byte : raw) is_ascii = is_ascii && static_cast<unsigned char>(byte) < 128;
  const std::size_t at = is_ascii ? layout.text_ascii : layout.text_wide;
  Object object(at + raw.size() + 4);
  object.store(kTextLength, static_cast<std::int64_t>(raw.size() / width));
  object.store(kTextHash, std::int64_t{-1});
  object.store(kTextState, width << 2 | 1u << 5 | (is_ascii ? 1u << 6 : 0u));
  std::memcpy(object.address() + at, raw.data(), raw.size());
  return object;
}

Object bytes_object(const std::string& raw) {
  Object object(kBytesText + raw.size() + 1);
  object.store(kObjectSize, static_cast<std::int64_t>(raw.size()));
  std::memcpy(object.address() + kBytesText, raw.data(), raw.size());
  return object;
}

// A code object with all its parts.
struct Code {
  Code(const PythonLayout& layout, const std::string& name_text, const std::string& file_text,
       std::int32_t first_line, std::uint32_t version = 0)
      : name(text_object(layout, name_text)),
        file(text_object(layout, file_text)),
        table(bytes_object(std::string("\x04\x01\x04\x01", 4))),
        code(512) {
    code.store(layout.code_name, name.address());
    code.store(layout.code_filename, file.address());
    code.store(layout.code_line_table, table.address());
    code.store(layout.code_first_line, first_line);
    if (layout.code_version != 0) code.store(layout.code_version, version);
  }
  Object name;
  Object file;
  Object table;
  Object code;
};

struct Table {
  explicit Table(int minor) : layout(*python_layout(minor)) { REQUIRE(codes.prepare(layout)); }
  std::uint32_t id_of(Code& code) { return codes.id_of(code.code.address()); }
  PythonCode describe(std::uint32_t id) {
    PythonCode code;
    REQUIRE(codes.describe(id, &code));
    return code;
  }
  const PythonLayout& layout;
  PythonCodeTable codes;
};

}  // namespace

TEST_CASE("a code object keeps its id, and its copy outlives it", "[stacks][unit][recorder]") {
  for (const int minor : {kByContent, kByVersion}) {
    Table table(minor);
    auto code = std::make_unique<Code>(table.layout, "train", "/home/u/train.py", 40, 7);
    const std::uint32_t id = table.id_of(*code);
    CHECK(id != kUnnamedCode);
    CHECK(table.id_of(*code) == id);
    code.reset();
    const PythonCode copy = table.describe(id);
    CHECK(copy.name == "train");
    CHECK(copy.file == "/home/u/train.py");
    CHECK(copy.first_line == 40);
    CHECK(table.codes.line_of(id, -1) == 40);
    CHECK(table.codes.line_of(id, kNoPosition) == 0);
    CHECK(table.codes.size() == 1);
  }
  Table table(kByContent);
  Code code(table.layout, "f", "f.py", 40);
  CHECK(table.codes.line_of(table.id_of(code), 4) == 41);
  CHECK(table.codes.line_of(table.id_of(code), 8) == 42);
}

TEST_CASE("other contents at the same addresses get another id", "[stacks][unit][recorder]") {
  SECTION("seen by the text where there is no version") {
    Table table(kByContent);
    Code code(table.layout, "name0001", "f.py", 1);
    const std::uint32_t first = table.id_of(code);
    std::memcpy(code.name.address() + table.layout.text_ascii, "name0002", 8);
    const std::uint32_t second = table.id_of(code);
    CHECK(first != second);
    CHECK(table.describe(first).name == "name0001");
    CHECK(table.describe(second).name == "name0002");
  }
  SECTION("seen by the text's hash once that is known") {
    Table table(kByContent);
    Code code(table.layout, "name__a__tail_of_it", "f.py", 1);
    code.name.store(kTextHash, std::int64_t{11});
    const std::uint32_t first = table.id_of(code);
    code.name.address()[table.layout.text_ascii + 9] = 'b';
    code.name.store(kTextHash, std::int64_t{12});
    CHECK(table.id_of(code) != first);
  }
  SECTION("seen by the version where there is one") {
    Table table(kByVersion);
    Code code(table.layout, "name0001", "f.py", 1, 70);
    const std::uint32_t first = table.id_of(code);
    std::memcpy(code.name.address() + table.layout.text_ascii, "name0002", 8);
    code.code.store(table.layout.code_version, std::uint32_t{71});
    CHECK(table.describe(table.id_of(code)).name == "name0002");
    CHECK(table.describe(first).name == "name0001");
  }
}

TEST_CASE("equal contents at other addresses share one id", "[stacks][unit][recorder]") {
  Table table(kByVersion);
  std::vector<std::unique_ptr<Code>> alive;
  for (std::uint32_t i = 1; i <= 2000; ++i) {
    alive.push_back(std::make_unique<Code>(table.layout, "churned", "churn.py", 3, i));
    CHECK(table.id_of(*alive.back()) == 1);
  }
  CHECK(table.codes.size() == 1);
}

TEST_CASE("texts of every width become UTF-8", "[stacks][unit][recorder]") {
  Table table(kByContent);
  const auto name_of = [&table](const std::string& raw, std::uint32_t width) {
    Code code(table.layout, "x", "x.py", 1);
    Object text = text_object(table.layout, raw, width);
    code.code.store(table.layout.code_name, text.address());
    return table.describe(table.id_of(code)).name;
  };
  CHECK(name_of("plain", 1) == "plain");
  CHECK(name_of("F\xfc", 1) == "F\xc3\xbc");
  CHECK(name_of(std::string("\xd0\x72\x41\x00", 4), 2) ==
        "\xe7\x8b\x90"
        "A");
  CHECK(name_of(std::string("\x00\xf6\x01\x00", 4), 4) == "\xf0\x9f\x98\x80");
  // A byte of a file name that was no text: a lone surrogate.
  CHECK(name_of(std::string("\x80\xdc", 2), 2) == "\xef\xbf\xbd");
  CHECK(name_of("", 1) == "");
}

TEST_CASE("the frames that CPython pushes for a class call are told apart",
          "[stacks][unit][recorder]") {
  Table table(kByVersion);
  Code internal(table.layout, "__init__", "__init__", 1, 5);
  Code users(table.layout, "__init__", "__init__.py", 1, 6);
  CHECK(table.id_of(internal) == PythonCodeTable::kInternalCode);
  CHECK(table.id_of(internal) == PythonCodeTable::kInternalCode);
  CHECK(table.describe(table.id_of(users)).file == "__init__.py");
  PythonCode code;
  CHECK_FALSE(table.codes.describe(PythonCodeTable::kInternalCode, &code));
}

TEST_CASE("what is no compact string leaves the frame without a name, and that is counted",
          "[stacks][unit][recorder]") {
  Table table(kByContent);
  Code code(table.layout, "name", "f.py", 1);
  SECTION("not compact") { code.name.store(kTextState, 1u << 2); }
  SECTION("a width that there is not") { code.name.store(kTextState, 3u << 2 | 1u << 5); }
  SECTION("a negative length") { code.file.store(kTextLength, std::int64_t{-5}); }
  SECTION("no object") { code.code.store(table.layout.code_name, std::uintptr_t{0}); }
  CHECK(table.id_of(code) == kUnnamedCode);
  CHECK(table.codes.unnamed() == 1);
}

TEST_CASE("a table without room names what it knows and counts the rest",
          "[stacks][unit][recorder]") {
  Table table(kByVersion);
  constexpr std::uint32_t kTooMany = PythonCodeTable::kMaxCodes + 100;
  std::uint32_t version = 0;
  Code code(table.layout, "name000000", "f.py", 1);
  const auto set_name = [&](std::uint32_t number) {
    char text[16];
    std::snprintf(text, sizeof(text), "name%06u", number);
    std::memcpy(code.name.address() + table.layout.text_ascii, text, 10);
    code.code.store(table.layout.code_version, ++version);
  };
  std::uint32_t named = 0;
  for (std::uint32_t number = 0; number < kTooMany; ++number) {
    set_name(number);
    if (table.id_of(code) != kUnnamedCode) ++named;
  }
  CHECK(named == PythonCodeTable::kMaxCodes);
  CHECK(table.codes.unnamed() == kTooMany - PythonCodeTable::kMaxCodes);
  set_name(4711);
  CHECK(table.describe(table.id_of(code)).name == "name004711");
}

TEST_CASE("threads that meet the same code objects at the same time agree on names",
          "[stacks][unit][recorder]") {
  Table table(kByVersion);
  constexpr std::uint32_t kCodes = 300;
  constexpr int kThreads = 4;
  std::vector<std::unique_ptr<Code>> codes;
  for (std::uint32_t i = 0; i < kCodes; ++i) {
    codes.push_back(
        std::make_unique<Code>(table.layout, "f" + std::to_string(i), "f.py", 1, i + 1));
  }
  std::vector<std::vector<std::uint32_t>> ids(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        ids[static_cast<std::size_t>(t)].clear();
        for (auto& code : codes) ids[static_cast<std::size_t>(t)].push_back(table.id_of(*code));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : ids) {
    for (std::uint32_t i = 0; i < kCodes; ++i) {
      CHECK(table.describe(of_thread[i]).name == "f" + std::to_string(i));
    }
  }
  CHECK(table.codes.unnamed() == 0);
}

}  // namespace gpuidle::stacks
