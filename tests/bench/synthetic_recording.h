// SPDX-License-Identifier: Apache-2.0
//
// Recordings of any length for benchmarks and for tests of growth: a busy device, a launch-bound
// one with a gap before every kernel, and one that synchronises often.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/trace/trace_writer.h"

namespace gpuidle::tests {

inline constexpr std::size_t kSliceActivities = 32 * 1024;
inline constexpr std::size_t kStacks = 32;

enum Program : std::int64_t { kBusy = 0, kLaunchBound = 1, kSynchronising = 2 };

// One slice of the program's loop, moved on in time and correlation for each next slice: making
// the records costs a few nanoseconds each, so that the analysis is what is measured.
class SyntheticRecording : public model::Recording {
 public:
  explicit SyntheticRecording(Program program, std::size_t slices) : slices_(slices) {
    info_.source = model::Source::cupti;
    const model::ThreadId thread = tables_.intern_thread(1, 1, "main");
    const model::ApiId launch = tables_.intern_api("cudaLaunchKernel", model::ApiRole::launch);
    const model::ApiId sync =
        tables_.intern_api("cudaStreamSynchronize", model::ApiRole::sync_blocking);
    const std::int64_t kernel_ns = program == kLaunchBound ? 2'000 : 9'000;
    for (std::uint64_t address = 1; address < kStacks; ++address) {
      model::Frame frame;
      frame.kind = model::Frame::Kind::native;
      frame.address = address;
      const model::FrameId id = tables_.intern(frame);
      tables_.intern_stack(&id, 1);
    }
    std::int64_t host_ns = 0, device_ns = 10'000;
    for (std::size_t i = 0; i < kSliceActivities; ++i) {
      model::Kernel kernel;
      kernel.name = tables_.intern("kernel" + std::to_string(i % 64));
      model::ApiCall call;
      call.enter_ns = host_ns;
      call.exit_ns = host_ns + 5'000;
      call.correlation = ++correlations_;
      call.thread = thread;
      call.api = launch;
      call.role = model::ApiRole::launch;
      call.stack = static_cast<model::StackId>(i % kStacks);
      slice_.calls.push_back(call);
      model::DeviceActivity op;
      op.start_ns = std::max(device_ns, call.exit_ns + 1'000);
      op.end_ns = op.start_ns + kernel_ns;
      op.correlation = call.correlation;
      op.kernel = tables_.intern(kernel);
      op.kind = model::ActivityKind::kernel;
      slice_.activities.push_back(op);
      device_ns = op.end_ns;
      host_ns += program == kBusy ? 9'000 : 10'000;
      if (program == kSynchronising && i % 4 == 3) {
        call.enter_ns = host_ns;
        host_ns = call.exit_ns = std::max(host_ns, device_ns) + 2'000;
        call.correlation = ++correlations_;
        call.api = sync;
        call.role = model::ApiRole::sync_blocking;
        slice_.calls.push_back(call);
      }
    }
    length_ns_ = std::max(device_ns, host_ns) + 10'000;
    slice_.end_ns = length_ns_;
    info_.recording_start_ns = 0;
    info_.recording_end_ns = static_cast<std::int64_t>(slices) * length_ns_;
  }

  base::Status visit(model::SliceVisitor& visitor) const override {
    model::Slice slice = slice_;
    for (std::size_t i = 0; i < slices_; ++i) {
      visitor.on_slice(slice);
      move_on(&slice);
    }
    return {};
  }

  void move_on(model::Slice* slice) const {
    slice->begin_ns += length_ns_;
    slice->end_ns += length_ns_;
    for (model::ApiCall& call : slice->calls) {
      call.enter_ns += length_ns_;
      call.exit_ns += length_ns_;
      call.correlation += correlations_;
    }
    for (model::DeviceActivity& op : slice->activities) {
      op.start_ns += length_ns_;
      op.end_ns += length_ns_;
      op.correlation += correlations_;
    }
  }
  const model::Slice& first_slice() const { return slice_; }
  std::size_t slice_count() const { return slices_; }

 private:
  std::size_t slices_;
  model::Slice slice_;
  std::uint32_t correlations_ = 0;
  std::int64_t length_ns_ = 0;
};

/// Writes it as a trace of ours, in place of what is at `path`.
inline base::Status write_file(const std::string& path, const SyntheticRecording& recording) {
  std::remove(path.c_str());
  auto created = trace::TraceWriter::create(path, recording.info(), {});
  if (!created.ok()) return created.status();
  const std::unique_ptr<trace::TraceWriter> writer = created.take();
  model::Slice slice = recording.first_slice();
  for (std::size_t i = 0; i < recording.slice_count(); ++i) {
    model::Slice sorted = slice;
    const base::Status status = writer->write(recording.tables(), sorted, {});
    if (!status.ok()) return status;
    recording.move_on(&slice);
  }
  return writer->finish(recording.info());
}

}  // namespace gpuidle::tests
