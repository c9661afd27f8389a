// SPDX-License-Identifier: Apache-2.0
// The few lines that the test programs need: a check that names itself, and a count at the end.
#pragma once

#include <cstdio>

static int failures = 0;

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                         \
    }                                                                     \
  } while (false)

#define CHECK_EQ(a, b)                                                                   \
  do {                                                                                   \
    long long left = static_cast<long long>(a), right = static_cast<long long>(b);       \
    if (left != right) {                                                                 \
      std::printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #a, left, right); \
      ++failures;                                                                        \
    }                                                                                    \
  } while (false)

/// Times are real, and the machine may be busy: what must hold is tried many times.
template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 25; ++i) {
    if (condition()) return true;
  }
  return false;
}

static inline int finish_checks() {
  std::printf(failures ? "%d checks failed\n" : "all checks passed\n", failures);
  return failures ? 1 : 0;
}
