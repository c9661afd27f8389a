// SPDX-License-Identifier: Apache-2.0
//
// The golden trace of each released format reads as it did when it was made. The hidden test
// "[.write-golden]" makes one; tests/golden/trace/README.md says when that is allowed.
#include <catch2/catch.hpp>

#include "tests/unit/trace_fixture.h"

using namespace gpuidle;
using namespace gpuidle::trace::test;

namespace {

constexpr std::int64_t kStart_ns = 5'000'000'000;

model::RecordingInfo golden_info() {
  model::RecordingInfo info;
  info.producer = "libgpuidle 0.1.0";
  info.source = model::Source::cupti;
  info.source_reason = "CUPTI 13.0 allows one subscriber at a time";
  info.detail_level = "full";
  info.program = "/usr/bin/train";
  info.command = {"train", "--steps", "2"};
  info.host_name = "node7";
  info.pid = 4242;
  info.process_start_ns = kStart_ns - 1'000'000'000;
  info.recording_start_ns = kStart_ns;
  info.realtime_offset_ns = 1'700'000'000'000'000'000;
  info.rank = 1;
  info.world_size = 8;
  info.settings = {"GPUIDLE_FLUSH_INTERVAL_MS=100"};
  return info;
}

// One of everything, by hand: random numbers differ from one standard library to the next.
struct Golden {
  model::Tables tables;
  model::Slice first, second;
  model::Losses losses;

  Golden() {
    model::Device device;
    device.name = tables.intern("NVIDIA H100");
    device.multiprocessors = 132;
    device.compute_major = 9;
    device.memory_bytes = 80ull << 30;
    tables.set_device(device);
    model::Module module;
    module.path = tables.intern("/nowhere/libmodel.so");
    module.build_id = std::string("\x01\x02\xfe", 3);
    module.load_bias = 0x7f0000000000;
    module.begin_address = 0x7f0000000000;
    module.end_address = 0x7f0000010000;
    model::Frame native;
    native.kind = model::Frame::Kind::native;
    native.module = tables.intern(module);
    native.address = 0x1234;
    model::Frame python;
    python.kind = model::Frame::Kind::python;
    python.function = tables.intern("train_step");
    python.file = tables.intern("train.py");
    python.line = 17;
    const model::FrameId frames[] = {tables.intern(native), tables.intern(python)};
    stack = tables.intern_stack(frames, 2);
    model::Kernel kernel;
    kernel.name = tables.intern("_Z4gemmPfS_");
    kernel.grid = {64, 2, 1};
    kernel.block = {256, 1, 1};
    kernel.registers_per_thread = 32;
    kernel.static_shared_bytes = 1024;
    gemm = tables.intern(kernel);
    thread = tables.intern_thread(4242, 4243, "python");
    launch_api = tables.intern_api("cudaLaunchKernel", model::ApiRole::launch);
    copy_api = tables.intern_api("cudaMemcpy", model::ApiRole::copy_blocking);
    fill(first, kStart_ns, 1);
    fill(second, kStart_ns + 3'000'000, 101);
    second.markers.push_back({kStart_ns, kStart_ns + 6'000'000, tables.intern("epoch 1"), thread,
                              model::Marker::Kind::range});
    losses.count[static_cast<std::size_t>(model::LossReason::ring_full)] = 3;
  }

 private:
  void fill(model::Slice& slice, std::int64_t from_ns, std::uint32_t correlation) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::int64_t at_ns = from_ns + 500'000 * i;
      model::ApiCall call;
      call.enter_ns = at_ns;
      call.exit_ns = at_ns + 4'000 + 10 * i;
      call.correlation = correlation + i;
      call.thread = thread;
      call.api = i == 2 ? copy_api : launch_api;
      call.role = tables.apis()[call.api].role;
      call.stack = i == 0 ? stack : 0;
      call.result = i == 1 ? 700 : 0;
      slice.calls.push_back(call);
      model::DeviceActivity activity;
      activity.start_ns = at_ns + 9'000;
      activity.end_ns = activity.start_ns + 200'000 + i;
      activity.context = 1;
      activity.stream = 7 + i % 2;
      activity.correlation = call.correlation;
      activity.kind = i == 2 ? model::ActivityKind::memcpy : model::ActivityKind::kernel;
      activity.kernel = i == 2 ? 0 : gemm;
      if (i == 2) {
        activity.bytes = 1 << 20;
        activity.copy = model::CopyKind::device_to_host;
        activity.source = model::MemoryKind::device;
        activity.destination = model::MemoryKind::pageable;
      }
      slice.activities.push_back(activity);
    }
    slice.gaps.push_back({from_ns + 209'000, from_ns + 509'000, 0, correlation + 1});
    slice.overheads.push_back(
        {from_ns + 10, from_ns + 20, thread, tables.intern("activity buffer flush"), true});
    slice.unobserved.push_back(
        {from_ns + 2'000'000, from_ns + 2'500'000, tables.intern("another profiler was active")});
  }

  model::StackId stack = 0;
  model::KernelId gemm = 0;
  model::ThreadId thread = 0;
  model::ApiId launch_api = 0, copy_api = 0;
};

void write(const std::string& path, bool compress) {
  trace::WriterOptions options;
  options.compress = compress;
  Golden golden;
  auto writer = trace::TraceWriter::create(path, golden_info(), options);
  INFO(writer.status().message());
  REQUIRE(writer.ok());
  REQUIRE(writer.value()->write(golden.tables, golden.first, {}).ok());
  REQUIRE(writer.value()->write(golden.tables, golden.second, golden.losses).ok());
  REQUIRE(writer.value()->finish(golden_info()).ok());
}

}  // namespace

TEST_CASE("the golden trace of format 1.0 reads as it was written", "[trace]") {
  const auto opened = trace::open_trace(GPUIDLE_GOLDEN_FOLDER "/trace-1.0.gpuidle");
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  const model::Recording& recording = *opened.value();
  Collector collector;
  REQUIRE(recording.visit(collector).ok());
  Golden golden;
  model::Slice written = golden.first;
  append_to(written, golden.second);
  CHECK(is_same(collector.all, written));
  CHECK(recording.tables().strings() == golden.tables.strings());
  CHECK(recording.tables().kernels() == golden.tables.kernels());
  CHECK(recording.tables().modules() == golden.tables.modules());
  CHECK(recording.tables().frames() == golden.tables.frames());
  CHECK(recording.info().losses.count == golden.losses.count);
  CHECK(recording.info().command == golden_info().command);
  CHECK(recording.info().end == model::End::clean);
  CHECK(recording.info().launch_calls == 4);
  CHECK(recording.info().recording_end_ns == kStart_ns + 6'000'000);
}

TEST_CASE("write the golden trace", "[.write-golden]") {
  const char* folder = std::getenv("GOLDEN_FOLDER");
  REQUIRE(folder != nullptr);
  write(std::string(folder) + "/trace-1.0.gpuidle", true);
  write(std::string(folder) + "/plain.gpuidle", false);
}
