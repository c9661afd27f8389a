// SPDX-License-Identifier: Apache-2.0
//
// A small shared object that symbolizer_test loads whole, stripped, truncated and damaged.

namespace fixture {

using Function = int (*)(int);

// Not exported by name in the stripped copy: only .symtab knows it.
[[gnu::noinline]] static int local_step(int value) { return value * 3 + 1; }

}  // namespace fixture

extern "C" __attribute__((visibility("default"))) int fixture_exported(int value) {
  return fixture::local_step(value) + fixture::local_step(value + 1);
}

extern "C" __attribute__((visibility("default"))) fixture::Function fixture_local_address() {
  return &fixture::local_step;
}

namespace fixture {

// Names whose demangled form has parentheses in more places than the parameter list.
struct Callable {
  int operator()(void (*callback)(int), int value) const;
};
__attribute__((visibility("default"))) int Callable::operator()(void (*callback)(int),
                                                                int value) const {
  callback(value);
  return value;
}

}  // namespace fixture
