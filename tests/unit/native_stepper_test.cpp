// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/native_stepper.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "libgpuidle/stacks/unwind_tables.h"
#include "tests/unit/native_stepper_oracles.h"
#include "tests/unit/native_stepper_shapes.h"

using namespace gpuidle::stacks;
using namespace gpuidle::test;

namespace {

struct Unmap {
  void operator()(StackWalker* walker) const { StackWalker::unmap(walker); }
};
using Walker = std::unique_ptr<StackWalker, Unmap>;

Walker new_walker() {
  UnwindTables::prepare();
  Walker walker(StackWalker::map_new());
  REQUIRE(walker != nullptr);
  walker->set_bounds(find_stack_bounds());
  return walker;
}

std::uintptr_t address_of(const NativeFrame& frame) {
  return reinterpret_cast<std::uintptr_t>(frame.return_address);
}

// Compares each stack that it is shown with those of the oracles.
class Comparison : public StackVisitor {
 public:
  explicit Comparison(StackWalker& walker) : walker_(walker) {}

  __attribute__((noinline)) void visit() override {
    const WalkResult result =
        walker_.walk(capture_registers(), frames_.data(), StackWalker::kMaxFrames);
    OracleStack libgcc;
    walk_with_libgcc(&libgcc);
    ++stacks;
    if (result.end != StackEnd::complete) ++not_complete;
    if (!is_same_as_libgcc(result, libgcc)) ++unlike_libgcc;
    if (!has_frame_addresses_of(result, libgcc)) ++other_frame_addresses;
    if (unw_backtrace_ != nullptr) {
      std::array<void*, StackWalker::kMaxFrames> others;
      const int count = unw_backtrace_(others.data(), StackWalker::kMaxFrames);
      bool is_same = count == result.count;
      // Innermost are two places in this function.
      for (int i = 1; is_same && i < count; ++i) {
        const auto index = static_cast<std::size_t>(i);
        is_same = others[index] == frames_[index].return_address;
      }
      if (!is_same) ++unlike_libunwind;
    }
  }

  int stacks = 0;
  int not_complete = 0;
  int unlike_libgcc = 0;
  int unlike_libunwind = 0;
  int other_frame_addresses = 0;

 private:
  bool is_same_as_libgcc(const WalkResult& result, const OracleStack& libgcc) const {
    if (result.count != libgcc.count) return false;
    for (int i = 1; i < result.count; ++i) {
      if (address_of(frames_[static_cast<std::size_t>(i)]) != libgcc.address(i)) return false;
    }
    return true;
  }
  bool has_frame_addresses_of(const WalkResult& result, const OracleStack& libgcc) const {
    for (int i = 0; i + 1 < result.count && i + 1 < libgcc.count; ++i) {
      if (frames_[static_cast<std::size_t>(i)].frame_address != libgcc.stack_pointer(i + 1)) {
        return false;
      }
    }
    return true;
  }

  StackWalker& walker_;
  decltype(find_unw_backtrace()) unw_backtrace_ = find_unw_backtrace();
  std::array<NativeFrame, StackWalker::kMaxFrames> frames_;
};

void compare_stacks(StackWalker& walker, std::uint64_t first_seed, std::uint64_t last_seed) {
  Comparison comparison(walker);
  for (std::uint64_t number = first_seed; number <= last_seed; ++number) {
    StackSeed seed(number);
    descend(seed, static_cast<int>(seed.below(24)), comparison);
  }
  CHECK(comparison.stacks >= static_cast<int>(last_seed - first_seed));
  CHECK(comparison.not_complete == 0);
  CHECK(comparison.unlike_libgcc == 0);
  CHECK(comparison.unlike_libunwind == 0);
  CHECK(comparison.other_frame_addresses == 0);
}

// Called by the assembly below.
struct Capture {
  StackWalker* walker;
  std::array<NativeFrame, StackWalker::kMaxFrames> frames;
  WalkResult result;
};
Capture g_capture;
extern "C" __attribute__((noinline, used)) void stepper_test_capture() {
  g_capture.result =
      g_capture.walker->walk(capture_registers(), g_capture.frames.data(), StackWalker::kMaxFrames);
}

extern "C" {
void stepper_test_no_table();
void stepper_test_odd_rule();
void stepper_test_rbx_rule();
void stepper_test_bad_return_address();
void stepper_test_two_frames(long outer_bytes, long inner_bytes);
}
// One function without unwind information, one with an expression that no compiler writes, one
// whose frame address is in rbx, and one that damages its return address while it calls.
asm(R"(
  .text
  .type stepper_test_no_table, @function
stepper_test_no_table:
  subq $8, %rsp
  call stepper_test_capture
  addq $8, %rsp
  ret
  .size stepper_test_no_table, . - stepper_test_no_table

  .type stepper_test_odd_rule, @function
stepper_test_odd_rule:
  .cfi_startproc
  subq $8, %rsp
  .cfi_escape 0x0f, 0x04, 0x77, 0x10, 0x30, 0x22
  call stepper_test_capture
  addq $8, %rsp
  .cfi_def_cfa 7, 8
  ret
  .cfi_endproc
  .size stepper_test_odd_rule, . - stepper_test_odd_rule

  .type stepper_test_rbx_rule, @function
stepper_test_rbx_rule:
  .cfi_startproc
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset 3, 0
  movq %rsp, %rbx
  .cfi_def_cfa_register 3
  andq $-64, %rsp
  subq $256, %rsp
  call stepper_test_capture
  movq %rbx, %rsp
  .cfi_def_cfa_register 7
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore 3
  ret
  .cfi_endproc
  .size stepper_test_rbx_rule, . - stepper_test_rbx_rule

  .type stepper_test_bad_return_address, @function
stepper_test_bad_return_address:
  .cfi_startproc
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset 3, 0
  movq 8(%rsp), %rbx
  movq $0x123456, 8(%rsp)
  call stepper_test_capture
  movq %rbx, 8(%rsp)
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore 3
  ret
  .cfi_endproc
  .size stepper_test_bad_return_address, . - stepper_test_bad_return_address

  .type stepper_test_inner_frame, @function
stepper_test_inner_frame:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset 6, 0
  movq %rsp, %rbp
  .cfi_def_cfa_register 6
  subq %rsi, %rsp
  call stepper_test_capture
  leave
  .cfi_def_cfa 7, 8
  .cfi_restore 6
  ret
  .cfi_endproc
  .size stepper_test_inner_frame, . - stepper_test_inner_frame

  .type stepper_test_two_frames, @function
stepper_test_two_frames:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset 6, 0
  movq %rsp, %rbp
  .cfi_def_cfa_register 6
  subq %rdi, %rsp
  call stepper_test_inner_frame
  leave
  .cfi_def_cfa 7, 8
  .cfi_restore 6
  ret
  .cfi_endproc
  .size stepper_test_two_frames, . - stepper_test_two_frames
)");

__attribute__((noinline)) WalkResult capture_through(void (*function)(), StackWalker& walker) {
  g_capture.walker = &walker;
  function();
  asm volatile("" ::: "memory");
  return g_capture.result;
}

}  // namespace

TEST_CASE("stacks of many shapes are those of libgcc and libunwind", "[stacks]") {
  if (find_unw_backtrace() == nullptr) WARN("libunwind.so.8 is not installed: libgcc alone");
  const Walker walker = new_walker();
  compare_stacks(*walker, 1, 10'000);
}

TEST_CASE("stacks of many shapes are right from end to end too", "[stacks]") {
  const Walker walker = new_walker();
  walker->set_incremental(false);
  compare_stacks(*walker, 10'001, 11'000);
}

TEST_CASE("a frame whose address is in rbx is passed", "[stacks]") {
  const Walker walker = new_walker();
  CHECK(capture_through(&stepper_test_rbx_rule, *walker).end == StackEnd::complete);
  CHECK(g_capture.result.count > 3);
  // The stack pointer was aligned down: the frame is larger than what the function asked for.
  CHECK(g_capture.frames[1].frame_address >= g_capture.frames[0].frame_address + 256 + 16);
}

TEST_CASE("a walk says why it ended early", "[stacks]") {
  const Walker walker = new_walker();
  SECTION("at code without unwind information") {
    CHECK(capture_through(&stepper_test_no_table, *walker).end == StackEnd::no_table);
    CHECK(g_capture.result.count == 2);
    CHECK(g_capture.frames[1].frame_address == 0);
  }
  SECTION("at a rule that is not understood") {
    CHECK(capture_through(&stepper_test_odd_rule, *walker).end == StackEnd::unsupported_rule);
    CHECK(g_capture.result.count == 2);
  }
  SECTION("at an address that is in no module") {
    CHECK(capture_through(&stepper_test_bad_return_address, *walker).end == StackEnd::no_table);
    CHECK(address_of(g_capture.frames[2]) == 0x123456);
  }
  SECTION("at the number of frames asked for") {
    std::array<NativeFrame, 2> frames;
    const WalkResult result = walker->walk(capture_registers(), frames.data(), 2);
    CHECK(result.end == StackEnd::too_deep);
    CHECK(result.count == 2);
  }
  SECTION("at the end of the stack that it knows") {
    Registers start = capture_registers();
    walker->set_bounds({start.values[kRsp], start.values[kRsp] + 64});
    std::array<NativeFrame, 8> frames;
    CHECK(walker->walk(start, frames.data(), 8).end == StackEnd::out_of_stack);
    start.values[kRsp] -= 4096;
    CHECK(walker->walk(start, frames.data(), 8).count == 1);
  }
}

TEST_CASE("a stack that differs in one slot is not taken for the last one", "[stacks]") {
  const Walker walker = new_walker();
  const WalkResult whole = capture_through(&stepper_test_rbx_rule, *walker);
  REQUIRE(whole.end == StackEnd::complete);
  for (int round = 0; round < 3; ++round) {
    CHECK(capture_through(&stepper_test_bad_return_address, *walker).end == StackEnd::no_table);
    CHECK(capture_through(&stepper_test_rbx_rule, *walker).count == whole.count);
  }
}

TEST_CASE("frames at the same place with another frame pointer are not the last ones", "[stacks]") {
  // Both put the innermost frames to the same addresses, and the second leaves the first one's
  // return address as it was in the larger outer frame.
  const Walker walker = new_walker();
  g_capture.walker = walker.get();
  stepper_test_two_frames(16, 128);
  const std::array<NativeFrame, StackWalker::kMaxFrames> first = g_capture.frames;
  stepper_test_two_frames(80, 64);
  CHECK(g_capture.result.end == StackEnd::complete);
  REQUIRE(g_capture.frames[0].frame_address == first[0].frame_address);
  CHECK(g_capture.frames[1].frame_address == first[1].frame_address - 64);
  CHECK(g_capture.frames[2].frame_address == first[2].frame_address);
}

TEST_CASE("damaged stacks end the walk, not the program", "[stacks]") {
  const Walker walker = new_walker();
  // A stack between two pages that must not be touched.
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kWords = 4 * kPage / sizeof(std::uintptr_t);
  auto* const pages =
      static_cast<char*>(mmap(nullptr, 6 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(static_cast<void*>(pages) != MAP_FAILED);
  REQUIRE(mprotect(pages + kPage, 4 * kPage, PROT_READ | PROT_WRITE) == 0);
  auto* const words = reinterpret_cast<std::uintptr_t*>(pages + kPage);
  const auto begin = reinterpret_cast<std::uintptr_t>(words);
  walker->set_bounds({begin, begin + 4 * kPage});

  // Code of the C library, of the C++ library and of this program, and how far to go in it: the
  // functions of many shapes have the rules that read memory in other ways.
  struct Code {
    std::uintptr_t begin;
    std::uintptr_t size;
  };
  const auto library_code = [](const char* name) -> Code {
    return {reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, name)), 100'000};
  };
  const auto shapes = reinterpret_cast<std::uintptr_t>(&descend);
  const auto assembly = reinterpret_cast<std::uintptr_t>(&stepper_test_rbx_rule);
  const Code code[] = {
      library_code("qsort"), library_code("__cxa_throw"), {shapes - 6000, 8000}, {assembly, 40}};
  std::mt19937_64 random(42);
  const auto random_word = [&]() -> std::uintptr_t {
    switch (random() % 4) {
      case 0:
        return random();
      case 1:
        return begin + random() % (5 * kPage) - kPage / 2;
      default: {
        const Code& place = code[random() % 4];
        return place.begin + random() % place.size;
      }
    }
  };
  std::array<NativeFrame, StackWalker::kMaxFrames> frames;
  std::array<int, 5> ends{};
  int frame_count = 0;
  for (int round = 0; round < 100'000; ++round) {
    for (int i = 0; i < 40; ++i) words[random() % kWords] = random_word();
    Registers start{};
    for (std::uintptr_t& value : start.values) value = random_word();
    if (round % 4 != 0) start.values[kRip] = shapes - 6000 + random() % 8000;
    start.values[kRsp] = begin + random() % (random() % 4 == 0 ? 64 : 4 * kPage) / 8 * 8;
    const WalkResult result = walker->walk(start, frames.data(), StackWalker::kMaxFrames);
    ++ends[static_cast<std::size_t>(result.end)];
    frame_count += result.count;
    std::uintptr_t lowest = start.values[kRsp];
    for (int i = 0; i + 1 < result.count; ++i) {
      const std::uintptr_t address = frames[static_cast<std::size_t>(i)].frame_address;
      if (address < lowest || address > begin + 4 * kPage) FAIL("frame outside of the stack");
      lowest = address;
    }
  }
  // That walks got anywhere at all. How far depends on what the compiler puts around the shapes:
  // about 111,000 frames under AddressSanitizer, more without.
  CHECK(frame_count > 50'000);
  CHECK(ends[static_cast<std::size_t>(StackEnd::no_table)] > 1000);
  CHECK(ends[static_cast<std::size_t>(StackEnd::out_of_stack)] > 1000);
  munmap(pages, 6 * kPage);
}

TEST_CASE("a deep recursion is cut at the limit, and the next stack is right", "[stacks]") {
  const Walker walker = new_walker();
  class Deep : public StackVisitor {
   public:
    explicit Deep(StackWalker& walker) : walker_(walker) {}
    void visit() override {
      result = walker_.walk(capture_registers(), frames_.data(), StackWalker::kMaxFrames);
    }
    WalkResult result;

   private:
    StackWalker& walker_;
    std::array<NativeFrame, StackWalker::kMaxFrames> frames_;
  };
  Deep deep(*walker);
  for (int depth = 300; depth < 310; ++depth) {
    StackSeed seed(7);
    descend_quickly(seed, depth, deep);
    CHECK(deep.result.end == StackEnd::too_deep);
    CHECK(deep.result.count == StackWalker::kMaxFrames);
  }
  compare_stacks(*walker, 20'001, 20'050);
}
