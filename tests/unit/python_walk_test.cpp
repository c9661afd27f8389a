// SPDX-License-Identifier: Apache-2.0
//
// The walk over thread states and frames made by hand, and the proof of a layout before it is used:
// memory that is not as expected switches Python frames off and never ends the program.
#include "libgpuidle/stacks/python_walk.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libgpuidle/stacks/python_frames.h"
#include "tests/unit/python_pretender.h"

namespace gpuidle::stacks {
namespace {

// A thread state with frames, in the layout of one version. Objects are 512 bytes each.
class Interpreter {
 public:
  explicit Interpreter(int minor) : layout(*python_layout(minor)) { python.layout = &layout; }

  char* new_object() { return objects_[used_++].data(); }
  char* new_code() {
    char* code = new_object();
    store(code + kObjectType, reinterpret_cast<std::uintptr_t>(&PyCode_Type));
    store(code + kObjectSize, std::int64_t{50});
    return code;
  }
  // A frame at instruction 3 whose caller is `previous`.
  char* new_frame(char* code, char* previous, std::uint8_t kind) {
    char* frame = new_object();
    store(frame + layout.frame_code, code);
    store(frame + layout.frame_previous, previous);
    if (layout.code_instructions != 0) {
      store(frame + layout.frame_position, code + layout.code_instructions + 6);
    } else {
      store(frame + layout.frame_position, std::int32_t{6});
    }
    if (layout.frame_kind != 0) store(frame + layout.frame_kind, kind);
    return frame;
  }
  char* new_cframe(char* frame, char* previous) {
    char* cframe = new_object();
    store(cframe + layout.cframe_frame, frame);
    store(cframe + layout.cframe_previous, previous);
    return cframe;
  }
  WalkEnd walk(int max_frames = 8) {
    python.code_type = reinterpret_cast<std::uintptr_t>(&PyCode_Type);
    PythonWalk<DirectMemory> walk(python, DirectMemory(), frames.data(), max_frames);
    const WalkEnd end = walk.run(thread);
    count = walk.count();
    return end;
  }

  const PythonLayout& layout;
  PythonInterpreter python;
  std::array<PythonFrame, 8> frames{};
  int count = 0;

 private:
  std::vector<std::array<char, 512>> objects_ = std::vector<std::array<char, 512>>(32);
  std::size_t used_ = 0;

 public:
  char* thread = new_object();
};

std::uintptr_t address(const char* object) { return reinterpret_cast<std::uintptr_t>(object); }

constexpr std::uint8_t kInner = 0;
constexpr std::uint8_t kEntry = 1;  // 3.11's is_entry

// Runs in a process of its own, because the mode is set once per process; the reason for off.
template <typename Prepare>
std::string off_reason_after(Prepare prepare) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    PythonFrames::prepare();
    const NativeFrame native{reinterpret_cast<void*>(0x1234), 0};
    std::uint64_t words[4];
    bool is_cut = false;
    const bool is_native =
        PythonFrames::capture(&native, 1, words, 4, &is_cut) == 1 && words[0] == 0x1234 && !is_cut;
    const std::string answer =
        std::string(is_native ? "" : "other words; ") + PythonFrames::off_reason();
    const bool is_written =
        write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size());
    _exit(is_written ? 0 : 1);
  }
  close(ends[1]);
  std::string answer(300, '\0');
  const ssize_t length = read(ends[0], answer.data(), answer.size());
  answer.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  return answer;
}

}  // namespace

TEST_CASE("3.8 and 3.9: every frame is a call of the evaluation loop", "[stacks][unit]") {
  Interpreter of(9);
  char* outer = of.new_frame(of.new_code(), nullptr, 0);
  store(of.thread + of.layout.thread_frame, of.new_frame(of.new_code(), outer, 0));
  CHECK(of.walk() == WalkEnd::outermost);
  REQUIRE(of.count == 2);
  CHECK((of.frames[0].is_entry && of.frames[1].is_entry));
  CHECK((of.frames[0].anchor == 0 && of.frames[0].position == 6));
}

TEST_CASE("3.10: frames and structs on the C stack pair up", "[stacks][unit]") {
  Interpreter of(10);
  char* outer = of.new_frame(of.new_code(), nullptr, 0);
  store(of.thread + of.layout.thread_frame, of.new_frame(of.new_code(), outer, 0));
  char* root = of.new_cframe(nullptr, nullptr);
  char* first = of.new_cframe(nullptr, root);
  char* second = of.new_cframe(nullptr, first);
  store(of.thread + of.layout.thread_cframe, second);
  CHECK(of.walk() == WalkEnd::outermost);
  CHECK(of.frames[0].anchor == address(second));
  CHECK(of.frames[1].anchor == address(first));
  CHECK(of.frames[0].position == 12);
}

TEST_CASE("3.11: a struct on the C stack per run of frames, and the two lists must agree",
          "[stacks][unit]") {
  Interpreter of(11);
  char* outer = of.new_frame(of.new_code(), nullptr, kEntry);
  char* middle = of.new_frame(of.new_code(), outer, kEntry);
  char* inner = of.new_frame(of.new_code(), middle, kInner);
  char* root = of.new_cframe(nullptr, nullptr);
  char* first = of.new_cframe(outer, root);
  char* second = of.new_cframe(inner, first);
  store(of.thread + of.layout.thread_cframe, second);
  SECTION("as it should be") {
    CHECK(of.walk() == WalkEnd::outermost);
    REQUIRE(of.count == 3);
    CHECK((of.frames[0].anchor == address(second) && !of.frames[0].is_entry));
    CHECK((of.frames[1].anchor == address(second) && of.frames[1].is_entry));
    CHECK((of.frames[2].anchor == address(first) && of.frames[2].is_entry));
  }
  SECTION("the struct names another frame: what came before is kept") {
    store(first + of.layout.cframe_frame, inner);
    CHECK(of.walk() == WalkEnd::damaged);
    CHECK(of.count == 2);
  }
}

TEST_CASE("3.12 and later: runs end at a frame on the C stack", "[stacks][unit]") {
  for (const int minor : {12, 13, 14, 15}) {
    Interpreter of(minor);
    char* last = of.new_frame(of.new_object(), nullptr, kOwnerOnCStack);
    char* outer = of.new_frame(of.new_code(), last, kInner);
    char* shim = of.new_frame(of.new_object(), outer, kOwnerOnCStack);
    char* code = of.new_code();
    char* inner = of.new_frame(code, shim, kInner);
    if (minor >= 14) store(inner + of.layout.frame_code, code + 1);  // tagged
    if (of.layout.thread_cframe != 0) {
      store(of.thread + of.layout.thread_cframe, of.new_cframe(inner, nullptr));
    } else {
      store(of.thread + of.layout.thread_frame, inner);
    }
    CHECK(of.walk() == WalkEnd::outermost);
    REQUIRE(of.count == 2);
    CHECK((of.frames[0].anchor == address(shim) && of.frames[0].code == code));
    CHECK((of.frames[1].anchor == address(last) && of.frames[1].position == 6));
    // A stack that is deeper than what is kept still knows where its runs end.
    CHECK(of.walk(1) == WalkEnd::too_deep);
    CHECK((of.count == 1 && of.frames[0].anchor == address(shim)));
    // An instruction outside of the code has no position.
    store(inner + of.layout.frame_position, code + of.layout.code_instructions + 100);
    of.walk();
    CHECK(of.frames[0].position == kNoPosition);
  }
}

TEST_CASE("a walk over damaged memory ends and keeps what was good", "[stacks][unit]") {
  Interpreter of(13);
  char* shim = of.new_frame(of.new_object(), nullptr, kOwnerOnCStack);
  char* outer = of.new_frame(of.new_code(), shim, kInner);
  char* inner = of.new_frame(of.new_code(), outer, kInner);
  store(of.thread + of.layout.thread_frame, inner);
  SECTION("a pointer that is none") {
    store(inner + of.layout.frame_previous, std::uintptr_t{0x13});
    CHECK(of.walk() == WalkEnd::damaged);
    CHECK(of.count == 1);
  }
  SECTION("code that is no code object") {
    store(outer + of.layout.frame_code, of.new_object());
    CHECK(of.walk() == WalkEnd::damaged);
    CHECK(of.count == 1);
  }
  SECTION("an outermost frame that nobody runs") {
    store(outer + of.layout.frame_previous, std::uintptr_t{0});
    CHECK(of.walk() == WalkEnd::damaged);
    CHECK(of.count == 2);
  }
  SECTION("a ring of frames") {
    store(outer + of.layout.frame_previous, inner);
    CHECK(of.walk() == WalkEnd::too_deep);
    CHECK(of.count == 8);
  }
}

TEST_CASE("a layout that this thread's frames disprove switches Python frames off",
          "[stacks][unit]") {
  const auto frames_at = [](std::uintptr_t thread_id, std::uintptr_t frame) {
    return off_reason_after([=] {
      static Interpreter of(13);
      pretend("3.13.0 (main)", of.layout);
      store(of.thread + of.layout.thread_id, thread_id);
      store(of.thread + of.layout.thread_frame, frame);
      set_thread_state(of.thread);
    });
  };
  const auto self = static_cast<std::uintptr_t>(pthread_self());
  CHECK(frames_at(self + 8, 0) == "the interpreter's thread state does not look as expected");
  CHECK(frames_at(self, 0x7000'0000'0000) ==
        "the interpreter's frames do not look as expected");  // not mapped
  CHECK(frames_at(self, 0x13) == "the interpreter's frames do not look as expected");
  CHECK(frames_at(self, 0).empty());  // in no Python code: proves nothing, harms nothing
  // The frames are fine, but lie on the heap and not on this thread's stack.
  CHECK(off_reason_after([] {
          static Interpreter of(13);
          pretend("3.13.0 (main)", of.layout);
          char* shim = of.new_frame(of.new_object(), nullptr, kOwnerOnCStack);
          store(of.thread + of.layout.thread_id, static_cast<std::uintptr_t>(pthread_self()));
          store(of.thread + of.layout.thread_frame, of.new_frame(of.new_code(), shim, kInner));
          set_thread_state(of.thread);
        }) == "the interpreter's frames do not lie on the thread's stack");
}

}  // namespace gpuidle::stacks
