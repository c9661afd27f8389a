// SPDX-License-Identifier: Apache-2.0
//
// Where Python frames go among native ones, on stacks made by hand.
#include <catch2/catch.hpp>
#include <vector>

#include "libgpuidle/stacks/stack_merge.h"
#include "libgpuidle/stacks/stack_word.h"

namespace gpuidle::stacks {
namespace {

constexpr EvaluationLoop kLoop{0x5000, 0x6000};
constexpr std::uintptr_t kInLoop = 0x5800;

NativeFrame native(std::uintptr_t address, std::uintptr_t frame_end) {
  return {reinterpret_cast<void*>(address), frame_end};
}

PythonFrame python(std::uint32_t code_id, std::uintptr_t anchor, bool is_entry = true) {
  return {nullptr, python_word(code_id, 0), anchor, 0, is_entry};
}

struct Merged {
  std::vector<std::uint64_t> words;
  int misplaced = 0;
  bool is_cut = false;
};

Merged merge(const std::vector<NativeFrame>& natives, const std::vector<PythonFrame>& pythons,
             int max_words = 64) {
  Merged merged;
  merged.words.resize(static_cast<std::size_t>(max_words));
  const MergeResult result =
      merge_stacks(natives.data(), static_cast<int>(natives.size()), pythons.data(),
                   static_cast<int>(pythons.size()), kLoop, merged.words.data(), max_words);
  merged.words.resize(static_cast<std::size_t>(result.count));
  merged.misplaced = result.misplaced;
  merged.is_cut = result.is_cut;
  return merged;
}

using Words = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a native frame that holds an anchor gives way to the Python frames it runs",
          "[stacks][unit]") {
  const auto merged =
      merge({native(0x10, 1000), native(0x20, 2000), native(0x30, 3000), native(0x40, 4000)},
            {python(1, 1500, false), python(2, 1500), python(3, 3500)});
  CHECK(merged.words == Words{0x10, python_word(1, 0), python_word(2, 0), 0x30, python_word(3, 0)});
  CHECK(merged.misplaced == 0);
}

TEST_CASE("an anchor at the first byte of a frame belongs to it, one at its end to the next",
          "[stacks][unit]") {
  CHECK(merge({native(0x10, 1000), native(0x20, 2000)}, {python(1, 1000)}).words ==
        Words{0x10, python_word(1, 0)});
  CHECK(merge({native(0x10, 1000), native(0x20, 2000)}, {python(1, 999)}).words ==
        Words{python_word(1, 0), 0x20});
}

TEST_CASE("without frame addresses frames of the evaluation loop give way one by one",
          "[stacks][unit]") {
  SECTION("one run of Python frames for each") {
    const auto merged = merge({native(0x10, 0), native(kInLoop, 0), native(0x30, 0),
                               native(kInLoop + 8, 0), native(0x50, 0)},
                              {python(1, 0, false), python(2, 0), python(3, 0)});
    CHECK(merged.words ==
          Words{0x10, python_word(1, 0), python_word(2, 0), 0x30, python_word(3, 0), 0x50});
    CHECK(merged.misplaced == 0);
  }
  SECTION("a return address behind the loop's last call still belongs to it") {
    CHECK(merge({native(kLoop.end, 0)}, {python(1, 0)}).words == Words{python_word(1, 0)});
    CHECK(merge({native(kLoop.begin, 0)}, {}).words == Words{kLoop.begin});
  }
  SECTION("a loop that has not begun a Python frame stays") {
    CHECK(merge({native(0x10, 0), native(kInLoop, 0)}, {}).words == Words{0x10, kInLoop});
  }
}

TEST_CASE("Python frames without an anchor take frames of the loop though addresses are known",
          "[stacks][unit]") {
  const auto merged =
      merge({native(0x10, 1000), native(kInLoop, 2000), native(0x30, 3000)}, {python(1, 0)});
  CHECK(merged.words == Words{0x10, python_word(1, 0), 0x30});
}

TEST_CASE("Python frames whose native frame is missing follow at the end and are counted",
          "[stacks][unit]") {
  const auto merged = merge({native(0x10, 1000)}, {python(1, 1500, false), python(2, 1500)});
  CHECK(merged.words == Words{0x10, python_word(1, 0), python_word(2, 0)});
  CHECK(merged.misplaced == 2);
  CHECK(merge({}, {python(1, 7)}).words == Words{python_word(1, 0)});
}

TEST_CASE("an anchor that was passed by does not hold up the frames further out",
          "[stacks][unit]") {
  const auto merged = merge({native(kInLoop, 0), native(0x20, 2000), native(0x30, 3000)},
                            {python(1, 1), python(2, 2), python(3, 2500)});
  CHECK(merged.words == Words{python_word(1, 0), python_word(2, 0), python_word(3, 0)});
  CHECK(merged.misplaced == 0);
}

TEST_CASE("frames that are not to be shown leave no word, and their native frame goes",
          "[stacks][unit]") {
  PythonFrame hidden = python(1, 1500);
  hidden.word = 0;
  CHECK(merge({native(0x10, 1000), native(0x20, 2000)}, {hidden}).words == Words{0x10});
}

TEST_CASE("a full stack ends with the innermost frames and calls nothing misplaced",
          "[stacks][unit]") {
  const auto merged = merge({native(0x10, 1000), native(0x20, 2000), native(0x30, 3000)},
                            {python(1, 1500, false), python(2, 1500), python(3, 2500)}, 2);
  CHECK(merged.words == Words{0x10, python_word(1, 0)});
  CHECK(merged.misplaced == 0);
  CHECK(merged.is_cut);
  CHECK_FALSE(merge({native(0x10, 1000), native(0x20, 2000)}, {python(1, 1500)}, 2).is_cut);
  CHECK(merge({native(0x10, 1000)}, {python(1, 1500)}, 1).is_cut);
}

TEST_CASE("a word gives back its code and position", "[stacks][unit]") {
  for (const std::int32_t position : {0, 1, 70'000, -1, -2, kNoPosition}) {
    for (const std::uint32_t id : {kUnnamedCode, 1u, 0x7fffffffu}) {
      const std::uint64_t word = python_word(id, position);
      CHECK(is_python_word(word));
      CHECK(code_id_of(word) == id);
      CHECK(position_of(word) == position);
    }
  }
  CHECK_FALSE(is_python_word(0x00007fffffffffffULL));
}

}  // namespace gpuidle::stacks
