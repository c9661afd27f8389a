// SPDX-License-Identifier: Apache-2.0
//
// What a GPU activity with its launch call costs in a trace: bytes on disk and time to write and
// to read. The loop: eight kernels in a fixed order on three streams, each launched by a call with
// a stack id; all times jitter as on real machines. Prints items (activities) per second and, as
// counters, bytes per activity.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/trace/trace_reader.h"
#include "libgpuidle/trace/trace_writer.h"

namespace {

using namespace gpuidle;

constexpr std::size_t kKernels = 8;
constexpr std::size_t kStreams = 3;
constexpr std::int64_t kSlice_ns = 100'000'000;  // the recorder writes about ten times a second

// The steady loop of a launch-bound program, as an endless source of slices.
class TrainingLoop {
 public:
  TrainingLoop() {
    model::Frame caller;
    caller.address = 0x9000;
    caller.kind = model::Frame::Kind::native;
    const char* const names[kKernels] = {"gemm_a", "gemm_b",  "softmax", "layer_norm",
                                         "gelu",   "dropout", "reduce",  "adam"};
    const model::ThreadId thread = tables.intern_thread(100, 101, "main");
    const model::ApiId api = tables.intern_api("cudaLaunchKernel", model::ApiRole::launch);
    for (std::size_t i = 0; i < kKernels; ++i) {
      model::Kernel kernel;
      kernel.name = tables.intern(names[i]);
      kernel.grid = {static_cast<std::uint32_t>(64 << (i % 4)), 1, 1};
      kernel.block = {256, 1, 1};
      kernels_[i].kernel = tables.intern(kernel);
      model::Frame frame;
      frame.address = 0x1000 + 64 * i;
      frame.kind = model::Frame::Kind::native;
      const model::FrameId frames[2] = {tables.intern(frame), tables.intern(caller)};
      kernels_[i].stack = tables.intern_stack(frames, 2);
      kernels_[i].duration_ns = static_cast<double>(3000 + 2500 * i);
    }
    call_.thread = thread;
    call_.api = api;
    call_.role = model::ApiRole::launch;
  }

  model::Tables tables;

  // Appends launches and their activities until `count` or until kSlice_ns have passed.
  void fill(model::Slice& slice, std::size_t count) {
    const std::int64_t until_ns = host_ns_ + kSlice_ns;
    for (std::size_t i = 0; i < count && host_ns_ < until_ns; ++i) launch(slice);
  }

 private:
  struct KernelShape {
    model::KernelId kernel = 0;
    model::StackId stack = 0;
    double duration_ns = 0;
  };

  std::int64_t normal(double mean_ns, double deviation_ns) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(mean_ns + deviation_ns * normal_(random_)));
  }

  void launch(model::Slice& slice) {
    const KernelShape& shape = kernels_[step_ % kKernels];
    std::int64_t& free_ns = stream_free_ns_[step_ % kStreams];
    ++step_;
    host_ns_ += normal(3000, 300);
    call_.enter_ns = host_ns_;
    // Now and then the call takes long: page fault, interrupt, driver lock.
    host_ns_ += normal(2500, 250) + (step_ % 97 == 0 ? normal(30'000, 10'000) : 0);
    call_.exit_ns = host_ns_;
    call_.correlation = ++correlation_;
    call_.stack = shape.stack;
    slice.calls.push_back(call_);
    model::DeviceActivity activity;
    activity.start_ns = std::max(host_ns_ + normal(1500, 100), free_ns + normal(900, 60));
    activity.end_ns = activity.start_ns + normal(shape.duration_ns, 0.02 * shape.duration_ns);
    free_ns = activity.end_ns;
    activity.context = 1;
    activity.stream = static_cast<std::uint32_t>(13 + step_ % kStreams);
    activity.correlation = correlation_;
    activity.kernel = shape.kernel;
    activity.kind = model::ActivityKind::kernel;
    slice.activities.push_back(activity);
  }

  std::mt19937_64 random_{42};
  std::normal_distribution<double> normal_;
  KernelShape kernels_[kKernels];
  model::ApiCall call_;
  std::int64_t stream_free_ns_[kStreams] = {};
  std::int64_t host_ns_ = 1'000'000'000;
  std::uint32_t correlation_ = 0;
  std::size_t step_ = 0;
};

std::string scratch_path() {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder != nullptr ? folder : "/tmp") + "/trace_bench." +
         std::to_string(getpid()) + ".gpuidle";
}

// Writes `activities` launches and returns the size of the file; "" and 0 on failure.
std::uint64_t write_trace(const std::string& path, std::size_t activities, bool compress) {
  std::remove(path.c_str());
  trace::WriterOptions options;
  options.compress = compress;
  auto writer = trace::TraceWriter::create(path, {}, options);
  if (!writer.ok()) return 0;
  TrainingLoop loop;
  model::Slice slice;
  for (std::size_t written = 0; written < activities; written += slice.calls.size()) {
    slice.clear();
    loop.fill(slice, activities - written);
    if (slice.calls.empty()) return 0;
    if (!writer.value()->write(loop.tables, slice, {}).ok()) return 0;
  }
  if (!writer.value()->finish({}).ok()) return 0;
  return writer.value()->bytes_written();
}

void write_activities(benchmark::State& state) {
  const std::string path = scratch_path();
  const bool compress = state.range(0) != 0;
  TrainingLoop loop;
  model::Slice original;
  loop.fill(original, 100'000);
  std::remove(path.c_str());
  trace::WriterOptions options;
  options.compress = compress;
  auto writer = trace::TraceWriter::create(path, {}, options);
  if (!writer.ok()) return state.SkipWithError(writer.status().message().c_str());
  for (auto _ : state) {
    state.PauseTiming();
    model::Slice slice = original;
    state.ResumeTiming();
    if (!writer.value()->write(loop.tables, slice, {}).ok()) state.SkipWithError("write failed");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(original.calls.size()));
  std::remove(path.c_str());
}
BENCHMARK(write_activities)->ArgName("compress")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

class Counter : public model::SliceVisitor {
 public:
  std::size_t activities = 0, calls = 0;
  void on_slice(const model::Slice& slice) override {
    activities += slice.activities.size();
    calls += slice.calls.size();
  }
};

void read_activities(benchmark::State& state) {
  const std::string path = scratch_path();
  const auto activities = static_cast<std::size_t>(state.range(1));
  const std::uint64_t bytes = write_trace(path, activities, state.range(0) != 0);
  if (bytes == 0) return state.SkipWithError("cannot write the trace to read");
  std::size_t seen = 0;
  for (auto _ : state) {
    auto recording = trace::open_trace(path);
    Counter counter;
    if (!recording.ok() || !recording.value()->visit(counter).ok()) {
      state.SkipWithError("read failed");
      break;
    }
    seen = counter.activities + counter.calls;
  }
  if (seen != 2 * activities) state.SkipWithError("records are missing");
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(activities));
  state.counters["bytes_per_activity"] =
      static_cast<double>(bytes) / static_cast<double>(activities);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  // Highest so far in this process: must not grow with the length of the file.
  state.counters["peak_rss_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
  std::remove(path.c_str());
}
BENCHMARK(read_activities)
    ->ArgNames({"compress", "activities"})
    ->Args({0, 1'000'000})
    ->Args({1, 1'000'000})
    ->Args({1, 10'000'000})
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
