// SPDX-License-Identifier: Apache-2.0
//
// Libraries that come and go under the native stepper, and C libraries without _dl_find_object.
#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "libgpuidle/stacks/native_stepper.h"
#include "libgpuidle/stacks/unwind_tables.h"
#include "tests/unit/native_stepper_oracles.h"

using namespace gpuidle::stacks;
using namespace gpuidle::test;

namespace {

struct Seen {
  StackWalker* walker = nullptr;
  NativeFrame frames[StackWalker::kMaxFrames];
  WalkResult result;
  OracleStack libgcc;
};
Seen* g_seen = nullptr;

__attribute__((noinline)) void look() {
  g_seen->result =
      g_seen->walker->walk(capture_registers(), g_seen->frames, StackWalker::kMaxFrames);
  walk_with_libgcc(&g_seen->libgcc);
  asm volatile("" ::: "memory");  // keeps the call from becoming a jump
}

bool is_same(const Seen& seen) {
  if (seen.result.end != StackEnd::complete || seen.result.count != seen.libgcc.count) return false;
  for (int i = 1; i < seen.result.count; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(seen.frames[i].return_address);
    if (address != seen.libgcc.address(i)) return false;
  }
  return true;
}

using CallThrough = void (*)(void (*)());

// A library whose function calls back out of a frame of its own size.
struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(handle != nullptr);
    call = reinterpret_cast<CallThrough>(dlsym(handle, "stack_reload_call"));
    REQUIRE(call != nullptr);
  }
  void close() { dlclose(handle); }
  void* handle;
  CallThrough call;
};

StackWalker* walker_of_this_thread() {
  UnwindTables::prepare();
  StackWalker* const walker = StackWalker::map_new();
  REQUIRE(walker != nullptr);
  walker->set_bounds(find_stack_bounds());
  return walker;
}

// Loads, walks, unloads: with rules of a library that lies where another one was.
void reload_at_same_address(Seen& seen) {
  int reused = 0;
  CallThrough last = nullptr;
  for (int round = 0; round < 20; ++round) {
    Library library(round % 2 == 0 ? STACK_RELOAD_A : STACK_RELOAD_B);
    if (library.call == last) ++reused;
    last = library.call;
    UnwindTables::refresh();
    for (int i = 0; i < 3; ++i) {
      library.call(&look);
      if (!is_same(seen)) FAIL("another stack than libgcc's in round " << round);
    }
    library.close();
  }
  CHECK(reused > 0);
}

}  // namespace

TEST_CASE("rules of an unloaded library are not used for what takes its place", "[stacks]") {
  Seen seen;
  g_seen = &seen;
  seen.walker = walker_of_this_thread();
  const std::uint32_t before = UnwindTables::generation();
  reload_at_same_address(seen);
  CHECK(UnwindTables::generation() > before);
  StackWalker::unmap(seen.walker);
}

TEST_CASE("a load alone keeps the rules", "[stacks]") {
  UnwindTables::prepare();
  UnwindTables::refresh();
  const std::uint32_t before = UnwindTables::generation();
  Library library(STACK_RELOAD_A);
  UnwindTables::refresh();
  CHECK(UnwindTables::generation() == before);
  library.close();
  UnwindTables::refresh();
  CHECK(UnwindTables::generation() == before + 1);
}

TEST_CASE("without the C library's search the own table finds the same", "[stacks]") {
  Seen seen;
  g_seen = &seen;
  seen.walker = walker_of_this_thread();
  const std::uintptr_t places[] = {reinterpret_cast<std::uintptr_t>(&look),
                                   reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "qsort")),
                                   reinterpret_cast<std::uintptr_t>(&seen), 0x1000};
  std::vector<const std::uint8_t*> found;
  for (const std::uintptr_t place : places) found.push_back(UnwindTables::find(place));
  CHECK(found[0] != nullptr);
  CHECK(found[1] != nullptr);
  CHECK(found[2] == nullptr);
  UnwindTables::ignore_c_library();
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(UnwindTables::find(places[i]) == found[i]);
  reload_at_same_address(seen);
  UnwindTables::prepare();
  StackWalker::unmap(seen.walker);
}

TEST_CASE("the own table is read while it is replaced", "[stacks]") {
  UnwindTables::prepare();
  UnwindTables::ignore_c_library();
  const auto place = reinterpret_cast<std::uintptr_t>(&look);
  const std::uint8_t* const expected = UnwindTables::find(place);
  REQUIRE(expected != nullptr);
  std::atomic<bool> is_over{false};
  std::atomic<long> wrong{0};
  std::thread reader([&] {
    while (!is_over) {
      const std::uint8_t* const found = UnwindTables::find(place);
      if (found != expected && found != nullptr) ++wrong;
    }
  });
  for (int i = 0; i < 200; ++i) {
    Library library(STACK_RELOAD_A);
    UnwindTables::refresh();
    library.close();
    UnwindTables::refresh();
  }
  is_over = true;
  reader.join();
  CHECK(wrong == 0);
  CHECK(UnwindTables::find(place) == expected);
  UnwindTables::prepare();
}
