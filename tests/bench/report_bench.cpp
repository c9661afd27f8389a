// SPDX-License-Identifier: Apache-2.0
//
// How fast a report is made: activities per second and core through the analysis alone (records
// made in memory as the loop runs) and from a trace file of ours on disk, for three programs: a
// busy device, a launch-bound one with a gap before every kernel, and one that synchronises often.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/trace/trace_reader.h"
#include "tests/bench/synthetic_recording.h"

namespace {

using namespace gpuidle;
using tests::kSliceActivities;
using tests::Program;
using tests::SyntheticRecording;

constexpr std::size_t kActivities = 10'000'000;
// Counts rows: what streaming alone costs.
class CountingVisitor : public model::SliceVisitor {
 public:
  void on_slice(const model::Slice& slice) override { count += slice.activities.size(); }
  std::size_t count = 0;
};

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void run_analysis(benchmark::State& state, const model::Recording& recording) {
  std::size_t activities = 0;
  for (auto _ : state) {
    analysis::Idleness found;
    const base::Status status = analysis::analyze(recording, {}, &found);
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    activities += found.activity_count;
    benchmark::DoNotOptimize(found);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(activities));
  state.counters["peak_MiB"] = peak_mib();
}

void analysis_only(benchmark::State& state) {
  const SyntheticRecording recording(static_cast<Program>(state.range(0)),
                                     kActivities / kSliceActivities);
  run_analysis(state, recording);
}

void streaming_only(benchmark::State& state) {
  const SyntheticRecording recording(static_cast<Program>(state.range(0)),
                                     kActivities / kSliceActivities);
  CountingVisitor visitor;
  for (auto _ : state) {
    if (!recording.visit(visitor).ok()) state.SkipWithError("visit failed");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(visitor.count));
}

void report_from_file(benchmark::State& state) {
  const char* folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/report_bench." +
                           std::to_string(getpid()) + ".gpuidle";
  const SyntheticRecording recording(static_cast<Program>(state.range(0)),
                                     kActivities / kSliceActivities);
  const base::Status written = write_file(path, recording);
  auto opened = trace::open_trace(path);
  if (!written.ok() || !opened.ok()) {
    state.SkipWithError("cannot write and read back the trace");
  } else {
    run_analysis(state, *opened.value());
  }
  std::remove(path.c_str());
}

BENCHMARK(streaming_only)->Arg(tests::kBusy)->Unit(benchmark::kMillisecond);
BENCHMARK(analysis_only)
    ->Arg(tests::kBusy)
    ->Arg(tests::kLaunchBound)
    ->Arg(tests::kSynchronising)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(report_from_file)
    ->Arg(tests::kBusy)
    ->Arg(tests::kLaunchBound)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
