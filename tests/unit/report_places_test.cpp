// SPDX-License-Identifier: Apache-2.0
//
// Which frames of a stack are shown, and that the line to look at does not depend on it.
#include <catch2/catch.hpp>

#include "libgpuidle/report/places.h"
#include "tests/unit/ledger_recording.h"

using namespace gpuidle;
using report::FrameView;
using tests::LedgerRecording;

namespace {

// A call out of Python through the interpreter, ctypes and a C++ library of the user's.
model::StackId mixed_stack(LedgerRecording* recording) {
  model::Tables& tables = recording->mutable_tables();
  std::vector<model::FrameId> frames;
  const auto add = [&](model::Frame::Kind kind, std::string_view function, std::string_view file) {
    model::Frame frame;
    frame.kind = kind;
    frame.function = tables.intern(function);
    frame.file = tables.intern(file);
    frame.line = file.empty() ? 0 : 7;
    frames.push_back(tables.intern(frame));
  };
  const auto add_native = [&](std::string_view module, std::uint64_t address) {
    model::Module of;
    of.path = tables.intern(module);
    model::Frame frame;
    frame.kind = model::Frame::Kind::native;
    frame.module = tables.intern(of);
    frame.address = address;
    frames.push_back(tables.intern(frame));
  };
  add_native("/opt/app/libstep.so", 0x100);
  add_native("/usr/lib/libffi.so.8", 0x200);
  add(model::Frame::Kind::python, "step", "/home/u/train.py");
  add_native("/usr/bin/python3.11", 0x300);
  add(model::Frame::Kind::python, "fit", "/usr/lib/python3/dist-packages/trainer.py");
  add(model::Frame::Kind::python, "main", "/home/u/train.py");
  return tables.intern_stack(frames.data(), frames.size());
}

std::vector<std::string> shown(const LedgerRecording& recording, model::StackId stack,
                               FrameView view) {
  report::Places places(recording.tables(), view);
  std::vector<std::string> names;
  for (const symbols::ResolvedFrame& frame : places.of(stack).frames) {
    names.push_back(frame.file.empty() ? frame.module.substr(frame.module.rfind('/') + 1)
                                       : frame.function);
  }
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("each view shows its frames, in their order", "[report][unit]") {
  LedgerRecording recording;
  const model::StackId stack = mixed_stack(&recording);
  CHECK(shown(recording, stack, FrameView::folded) == Names{"libstep.so", "step", "fit", "main"});
  CHECK(shown(recording, stack, FrameView::all) ==
        Names{"libstep.so", "libffi.so.8", "step", "python3.11", "fit", "main"});
  CHECK(shown(recording, stack, FrameView::python) == Names{"step", "fit", "main"});
  CHECK(shown(recording, stack, FrameView::user) == Names{"libstep.so", "step", "main"});
}

TEST_CASE("a stack without a frame of the chosen kind is shown as ever", "[report][unit]") {
  LedgerRecording recording;
  const model::StackId foreign = recording.stack({{"std::sort", "", 0}, {"at::add", "", 0}});
  for (const FrameView view : {FrameView::folded, FrameView::user}) {
    report::Places places(recording.tables(), view);
    CHECK(places.of(foreign).frames.size() == 2);
    CHECK_FALSE(places.of(foreign).user_frame);
  }
}

TEST_CASE("the line to look at is the innermost of the user's that the view shows",
          "[report][unit]") {
  LedgerRecording recording;
  const model::StackId stack = mixed_stack(&recording);
  for (const FrameView view : {FrameView::folded, FrameView::all, FrameView::user}) {
    report::Places places(recording.tables(), view);
    const report::Place place = places.of(stack);
    REQUIRE(place.user_frame);
    CHECK(place.frames[*place.user_frame].module == "/opt/app/libstep.so");
  }
  report::Places places(recording.tables(), FrameView::python);
  const report::Place place = places.of(stack);
  REQUIRE(place.user_frame);
  CHECK(place.frames[*place.user_frame].function == "step");
}

TEST_CASE("an extension module of Python's own is not the user's", "[report][unit]") {
  LedgerRecording recording;
  model::Tables& tables = recording.mutable_tables();
  model::Module extension;
  extension.path = tables.intern("/usr/lib/python3.11/lib-dynload/array.cpython-311.so");
  model::Frame frame;
  frame.kind = model::Frame::Kind::native;
  frame.module = tables.intern(extension);
  frame.address = 0x100;
  const model::FrameId id = tables.intern(frame);
  report::Places places(recording.tables());
  CHECK_FALSE(places.of(tables.intern_stack(&id, 1)).user_frame);
}

TEST_CASE("a comprehension belongs to the function around it, not to one in another file",
          "[report][unit]") {
  LedgerRecording recording;
  const auto line_of = [&](const model::StackId stack) {
    report::Places places(recording.tables());
    const report::Place place = places.of(stack);
    REQUIRE(place.user_frame);
    return place.frames[*place.user_frame].function;
  };
  CHECK(line_of(recording.stack({{"prepare.<locals>.<genexpr>", "train.py", 5},
                                 {"prepare", "train.py", 5},
                                 {"main", "train.py", 9}})) == "prepare");
  CHECK(line_of(recording.stack({{"<listcomp>", "train.py", 5},
                                 {"<listcomp>", "train.py", 6},
                                 {"prepare", "train.py", 6}})) == "prepare");
  CHECK(line_of(recording.stack({{"<genexpr>", "words.py", 5}, {"fit", "train.py", 9}})) ==
        "<genexpr>");
  CHECK(line_of(recording.stack({{"prepare.<locals>.<lambda>", "train.py", 5},
                                 {"prepare", "train.py", 7}})) == "prepare.<locals>.<lambda>");
}
