// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/native_stepper_shapes.h"

#include <alloca.h>
#include <link.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

namespace gpuidle::test {
namespace {

// Neither inlined nor turned into a jump, so that each call is a frame.
#define GPUIDLE_FRAME __attribute__((noinline, noclone))
void stay() { asm volatile("" ::: "memory"); }
void touch(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

struct Descent {
  StackSeed& seed;
  StackVisitor& visitor;
  bool is_quick;
};
Descent* g_descent = nullptr;  // for callbacks without an argument of their own
int g_depth = 0;

void go_on(Descent& descent, int depth);

GPUIDLE_FRAME void plain(Descent& descent, int depth) {
  go_on(descent, depth);
  stay();
}

GPUIDLE_FRAME void with_alloca(Descent& descent, int depth) {
  void* memory = alloca(16 + descent.seed.below(2000));
  touch(memory);
  go_on(descent, depth);
  touch(memory);
}

GPUIDLE_FRAME int with_array(Descent& descent, int depth) {
  const std::size_t size = 1 + descent.seed.below(500);
  auto* const array = static_cast<int*>(__builtin_alloca_with_align(size * sizeof(int), 256));
  std::memset(array, depth, size * sizeof(int));
  go_on(descent, depth);
  touch(array);
  return array[size / 2];
}

GPUIDLE_FRAME void realigned(Descent& descent, int depth) {
  alignas(64) char block[192];
  touch(block);
  go_on(descent, depth);
  touch(block);
}

// Realigned with a frame of unknown size: the compiler keeps the caller's frame address in memory.
GPUIDLE_FRAME void realigned_with_alloca(Descent& descent, int depth) {
  alignas(128) char block[128];
  void* memory = alloca(1 + descent.seed.below(300));
  touch(block);
  touch(memory);
  go_on(descent, depth);
  touch(block);
  touch(memory);
}

// Saves all preserved registers and changes them.
GPUIDLE_FRAME std::uint64_t with_registers(Descent& descent, int depth) {
  std::uint64_t a = descent.seed.below(9), b = a * 3, c = b ^ 7, d = c + a, e = d * b, f = e ^ c;
  asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
  go_on(descent, depth);
  asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
  return a + b + c + d + e + f;
}

GPUIDLE_FRAME int compare(const void* a, const void* b) {
  if (g_depth > 0) {
    const int depth = g_depth;
    g_depth = 0;
    go_on(*g_descent, depth);
    stay();
  }
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

GPUIDLE_FRAME void through_qsort(Descent& descent, int depth) {
  int numbers[] = {3, 1, 2};
  g_descent = &descent;
  g_depth = depth;
  std::qsort(numbers, 3, sizeof(int), &compare);
  touch(numbers);
}

GPUIDLE_FRAME void through_bsearch(Descent& descent, int depth) {
  const int numbers[] = {1, 2, 3};
  const int wanted = 2;
  g_descent = &descent;
  g_depth = depth;
  touch(std::bsearch(&wanted, numbers, 3, sizeof(int), &compare));
}

GPUIDLE_FRAME void through_lambda(Descent& descent, int depth) {
  const std::function<void(int)> call = [&descent](int inner) {
    go_on(descent, inner);
    stay();
  };
  call(depth);
  stay();
}

GPUIDLE_FRAME void through_sort(Descent& descent, int depth) {
  std::vector<int> numbers(20);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i * 7 % 20);
  int left = depth;
  std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
    if (left > 0) {
      const int inner = left;
      left = 0;
      go_on(descent, inner);
      stay();
    }
    return a < b;
  });
  touch(numbers.data());
}

GPUIDLE_FRAME int on_object(dl_phdr_info*, std::size_t, void* argument) {
  auto& descent = *static_cast<Descent*>(argument);
  const int depth = g_depth;
  go_on(descent, depth);
  stay();
  return 1;
}

GPUIDLE_FRAME void through_loader(Descent& descent, int depth) {
  g_depth = depth;
  dl_iterate_phdr(&on_object, &descent);
  stay();
}

GPUIDLE_FRAME void in_catch(Descent& descent, int depth) {
  try {
    throw std::runtime_error("on purpose");
  } catch (const std::exception&) {
    go_on(descent, depth);
    stay();
  }
}

struct Destroyed {
  Descent& descent;
  int depth;
  GPUIDLE_FRAME ~Destroyed() {
    go_on(descent, depth);
    stay();
  }
};

GPUIDLE_FRAME void throw_through(Descent& descent, int depth) {
  const Destroyed destroyed{descent, depth};
  throw 1;
}

GPUIDLE_FRAME void in_destructor(Descent& descent, int depth) {
  try {
    throw_through(descent, depth);
  } catch (int) {
    stay();
  }
}

GPUIDLE_FRAME void on_signal(int) {
  const int depth = g_depth;
  go_on(*g_descent, depth);
  stay();
}

GPUIDLE_FRAME void in_handler(Descent& descent, int depth) {
  g_descent = &descent;
  g_depth = depth;
  struct sigaction action = {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGUSR2, &action, nullptr);
  raise(SIGUSR2);
  stay();
}

GPUIDLE_FRAME void visit_and_go_on(Descent& descent, int depth) {
  descent.visitor.visit();
  go_on(descent, depth);
  descent.visitor.visit();
  stay();
}

using Shape = void (*)(Descent&, int);
GPUIDLE_FRAME void array_shape(Descent& descent, int depth) {
  if (with_array(descent, depth) == -1) stay();
}
GPUIDLE_FRAME void register_shape(Descent& descent, int depth) {
  if (with_registers(descent, depth) == 1) stay();
}

constexpr Shape kShapes[] = {&plain, &plain, &with_alloca, &array_shape, &realigned,
                             &realigned_with_alloca, &register_shape, &through_lambda,
                             &visit_and_go_on, &through_qsort, &through_sort, &through_bsearch,
                             // not for sampling
                             &through_loader, &in_catch, &in_destructor, &in_handler};
constexpr unsigned kQuickShapes = 12;
constexpr unsigned kAllShapes = sizeof(kShapes) / sizeof(kShapes[0]);

GPUIDLE_FRAME void go_on(Descent& descent, int depth) {
  if (depth <= 0) {
    descent.visitor.visit();
  } else {
    const unsigned shape = descent.seed.below(descent.is_quick ? kQuickShapes : kAllShapes);
    kShapes[shape](descent, depth - 1);
  }
  stay();
}

}  // namespace

void descend(StackSeed& seed, int depth, StackVisitor& visitor) {
  Descent descent{seed, visitor, false};
  go_on(descent, depth);
}

void descend_quickly(StackSeed& seed, int depth, StackVisitor& visitor) {
  Descent descent{seed, visitor, true};
  go_on(descent, depth);
}

}  // namespace gpuidle::test
