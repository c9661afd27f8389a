// SPDX-License-Identifier: Apache-2.0
//
// long_trace OUT MILLIONS: writes a trace of so many million activities, with a gap before every
// kernel. Used by report_growth_test.
#include <cstdio>
#include <cstdlib>

#include "tests/bench/synthetic_recording.h"

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: long_trace OUT MILLIONS\n", stderr);
    return 2;
  }
  const std::size_t activities = std::strtoul(arguments[2], nullptr, 10) * 1'000'000;
  const gpuidle::tests::SyntheticRecording recording(gpuidle::tests::kLaunchBound,
                                                     activities / gpuidle::tests::kSliceActivities);
  const gpuidle::base::Status written = gpuidle::tests::write_file(arguments[1], recording);
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.message().c_str());
  return written.ok() ? 0 : 1;
}
