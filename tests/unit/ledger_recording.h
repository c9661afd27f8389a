// SPDX-License-Identifier: Apache-2.0
//
// Recordings written by hand for the tests of analysis and report: calls and the operations that
// they enqueue, in nanoseconds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::tests {

constexpr std::int64_t ms(double milliseconds) {
  return static_cast<std::int64_t>(milliseconds * 1e6 + (milliseconds < 0 ? -0.5 : 0.5));
}
constexpr std::int64_t us(double microseconds) { return ms(microseconds / 1e3); }

class LedgerRecording : public model::MemoryRecording {
 public:
  LedgerRecording() {
    mutable_info().source = model::Source::cupti;
    main_thread = mutable_tables().intern_thread(1, 1, "main");
  }

  /// A stack of Python frames "function" at file:line, innermost first.
  struct Line {
    std::string_view function, file;
    std::uint32_t line;
  };
  model::StackId stack(const std::vector<Line>& lines) {
    std::vector<model::FrameId> frames;
    for (const Line& line : lines) {
      model::Frame frame;
      frame.kind = model::Frame::Kind::python;
      frame.function = mutable_tables().intern(line.function);
      frame.file = mutable_tables().intern(line.file);
      frame.line = line.line;
      frames.push_back(mutable_tables().intern(frame));
    }
    return mutable_tables().intern_stack(frames.data(), frames.size());
  }

  /// Adds a call on `thread` and returns its correlation.
  std::uint32_t call(std::string_view name, model::ApiRole role, std::int64_t enter_ns,
                     std::int64_t exit_ns, model::StackId stack_id = 0) {
    model::ApiCall call;
    call.enter_ns = enter_ns;
    call.exit_ns = exit_ns;
    call.correlation = ++last_correlation;
    call.thread = thread == 0 ? main_thread : thread;
    call.api = mutable_tables().intern_api(name, role);
    call.role = role;
    call.stack = stack_id;
    records.calls.push_back(call);
    return call.correlation;
  }
  std::uint32_t launch(std::int64_t enter_ns, std::int64_t exit_ns, model::StackId stack_id = 0) {
    return call("cudaLaunchKernel", model::ApiRole::launch, enter_ns, exit_ns, stack_id);
  }
  std::uint32_t copy_call(std::int64_t enter_ns, std::int64_t exit_ns,
                          model::StackId stack_id = 0) {
    return call("cudaMemcpyAsync", model::ApiRole::copy, enter_ns, exit_ns, stack_id);
  }

  void op(model::ActivityKind kind, std::int64_t start_ns, std::int64_t end_ns,
          std::uint32_t correlation, std::string_view kernel_name = "k") {
    model::DeviceActivity activity;
    activity.kind = kind;
    activity.start_ns = start_ns;
    activity.end_ns = end_ns;
    activity.correlation = correlation;
    activity.device = device;
    activity.stream = stream;
    if (kind == model::ActivityKind::kernel) {
      model::Kernel kernel;
      kernel.name = mutable_tables().intern(kernel_name);
      activity.kernel = mutable_tables().intern(kernel);
    }
    records.activities.push_back(activity);
  }
  void kernel(std::int64_t start_ns, std::int64_t end_ns, std::uint32_t correlation,
              std::string_view name = "k") {
    op(model::ActivityKind::kernel, start_ns, end_ns, correlation, name);
  }
  void copy(std::int64_t start_ns, std::int64_t end_ns, std::uint32_t correlation,
            model::CopyKind kind = model::CopyKind::unknown, std::uint64_t bytes = 0,
            model::MemoryKind source = model::MemoryKind::unknown) {
    op(model::ActivityKind::memcpy, start_ns, end_ns, correlation);
    records.activities.back().copy = kind;
    records.activities.back().bytes = bytes;
    records.activities.back().source = source;
  }
  /// A look at the thread of the next calls, and at a child process.
  void sample(std::int64_t start_ns, std::int64_t end_ns, model::StackId stack_id,
              model::ThreadActivity activity, model::WaitTarget target) {
    model::ThreadSample sample;
    sample.start_ns = start_ns;
    sample.end_ns = end_ns;
    sample.thread = thread == 0 ? main_thread : thread;
    sample.stack = stack_id;
    sample.activity = activity;
    sample.target = target;
    records.samples.push_back(sample);
  }
  void child_sample(std::int64_t start_ns, std::int64_t end_ns, model::ThreadActivity activity,
                    model::WaitTarget target) {
    sample(start_ns, end_ns, 0, activity, target);
    records.samples.back().thread = mutable_tables().intern_thread(2, 2, "worker");
    records.samples.back().is_child_process = true;
  }
  /// A range that the program named, on the thread of the next calls.
  void range(std::string_view name, std::int64_t start_ns, std::int64_t end_ns) {
    model::Marker marker;
    marker.start_ns = start_ns;
    marker.end_ns = end_ns;
    marker.name = mutable_tables().intern(name);
    marker.thread = thread == 0 ? main_thread : thread;
    marker.kind = model::Marker::Kind::range;
    records.markers.push_back(marker);
  }
  void unobserved(std::int64_t start_ns, std::int64_t end_ns) {
    records.unobserved.push_back({start_ns, end_ns, mutable_tables().intern("other tool")});
  }

  /// Seals, analyses and requires success.
  analysis::Idleness analyze(std::size_t largest = 20) {
    seal();
    analysis::Idleness found;
    analysis::Options options;
    options.largest_gaps = largest;
    const base::Status status = analysis::analyze(*this, options, &found);
    if (!status.ok()) found.devices.clear();
    return found;
  }

  model::ThreadId main_thread = 0;
  model::ThreadId thread = 0;  ///< of the next calls; 0 = main_thread
  std::uint32_t device = 0;    ///< of the next operations
  std::uint32_t stream = 1;
  std::uint32_t last_correlation = 0;
};

}  // namespace gpuidle::tests
