// SPDX-License-Identifier: Apache-2.0
//
// The reasons for idleness as a type, and what causes.def says of each. Used by the rules that
// decide, by the findings they add up to, and by the reports that tell them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuidle::analysis {

/// In the order of causes.def; `unknown` is 0.
enum class Cause : std::uint8_t {
#define GPUIDLE_CAUSE(enumerator, id, category, moderate, high, meaning, fix) enumerator,
#include "libgpuidle/analysis/causes.def"
#undef GPUIDLE_CAUSE
};

struct CauseRow {
  std::string_view id;        ///< stable, for programs and people: "sync.scalar-read"
  std::string_view category;  ///< of the ICSE 2024 study, "-" = none
  int moderate_percent;       ///< share of the window from which on it is told
  int high_percent;
  std::string_view meaning;  ///< one clause
  std::string_view fix;      ///< one or two sentences; {line} stands for the user's line
};

inline constexpr CauseRow kCauses[] = {
#define GPUIDLE_CAUSE(enumerator, id, category, moderate, high, meaning, fix) \
  {id, category, moderate, high, meaning, fix},
#include "libgpuidle/analysis/causes.def"
#undef GPUIDLE_CAUSE
};
inline constexpr std::size_t kCauseCount = sizeof(kCauses) / sizeof(kCauses[0]);

constexpr const CauseRow& row_of(Cause cause) { return kCauses[static_cast<std::size_t>(cause)]; }

/// How well a verdict is founded.
enum class Grade : std::uint8_t {
  a = 0,  ///< device records, a call or a named range cover the time itself
  b = 1,  ///< what is recorded at both edges of the gaps agrees
  c = 2,  ///< one edge, or names alone
};

/// What the child processes of the program (a loader's workers) did for most of the time that they
/// were looked at.
enum class WorkerState : std::uint8_t {
  unknown = 0,
  busy = 1,    ///< on a processor
  remote = 2,  ///< waited for the network
  disk = 3,    ///< waited for a local file, or for memory to be read in
  idle = 4,    ///< waited for something else: for work, or to hand it over
};
inline constexpr std::size_t kWorkerStateCount = 5;

}  // namespace gpuidle::analysis
