// SPDX-License-Identifier: Apache-2.0
//
// What goes into a trace comes out of it: dictionaries, facts, losses, and records in time order.
#include <fcntl.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "tests/unit/trace_fixture.h"

using namespace gpuidle;
using namespace gpuidle::trace::test;

namespace {

std::unique_ptr<trace::TraceWriter> create(const std::string& path,
                                           const model::RecordingInfo& info,
                                           trace::WriterOptions options = {}) {
  auto writer = trace::TraceWriter::create(path, info, options);
  INFO(writer.status().message());
  REQUIRE(writer.ok());
  return writer.take();
}

std::unique_ptr<model::Recording> open(const std::string& path) {
  auto recording = trace::open_trace(path);
  INFO(recording.status().message());
  REQUIRE(recording.ok());
  return recording.take();
}

model::Slice visit_all(const model::Recording& recording, std::size_t* slices = nullptr) {
  Collector collector;
  const base::Status status = recording.visit(collector);
  INFO(status.message());
  REQUIRE(status.ok());
  REQUIRE(collector.promises_kept());
  if (slices != nullptr) *slices = collector.slices;
  return collector.all;
}

bool is_same_tables(const model::Tables& a, const model::Tables& b) {
  bool same = a.strings() == b.strings() && a.kernels() == b.kernels() &&
              a.modules() == b.modules() && a.frames() == b.frames() &&
              a.stack_count() == b.stack_count() && a.threads().size() == b.threads().size() &&
              a.apis().size() == b.apis().size() && a.devices().size() == b.devices().size();
  for (std::size_t i = 0; same && i < a.stack_count(); ++i) {
    std::size_t count_a = 0, count_b = 0;
    const auto* stack_a = a.stack(static_cast<model::StackId>(i), &count_a);
    const auto* stack_b = b.stack(static_cast<model::StackId>(i), &count_b);
    same = count_a == count_b && std::equal(stack_a, stack_a + count_a, stack_b);
  }
  for (std::size_t i = 0; same && i < a.threads().size(); ++i) {
    const auto &x = a.threads()[i], &y = b.threads()[i];
    same = x.pid == y.pid && x.tid == y.tid && x.name == y.name;
  }
  for (std::size_t i = 0; same && i < a.apis().size(); ++i) {
    same = a.apis()[i].name == b.apis()[i].name && a.apis()[i].role == b.apis()[i].role;
  }
  for (std::size_t i = 0; same && i < a.devices().size(); ++i) {
    const auto &x = a.devices()[i], &y = b.devices()[i];
    same = std::tie(x.ordinal, x.name, x.multiprocessors, x.compute_major, x.compute_minor,
                    x.memory_bytes, x.merely_listed) ==
           std::tie(y.ordinal, y.name, y.multiprocessors, y.compute_major, y.compute_minor,
                    y.memory_bytes, y.merely_listed);
  }
  return same;
}

}  // namespace

TEST_CASE("random recordings come back as they were written", "[trace]") {
  ScratchFolder folder;
  const unsigned seed = GENERATE(range(0u, 25u));
  const bool compress = GENERATE(true, false);
  CAPTURE(seed, compress);
  RandomRecording random(seed);
  const std::string path = folder.file("random.gpuidle");
  trace::WriterOptions options;
  options.compress = compress;
  auto writer = create(path, random.info(), options);
  model::Slice written;
  model::Losses losses;
  const std::size_t writes = 1 + random.below(6);
  for (std::size_t i = 0; i < writes; ++i) {
    random.grow_tables(random.below(20));
    // Spans overlap on purpose: device records come late.
    model::Slice slice = random.slice(static_cast<std::int64_t>(1'000'000 * (i + random.below(3))),
                                      3'000'000, random.below(300));
    append_to(written, slice);
    losses.count[random.below(model::kLossReasonCount)] += random.below(10);
    REQUIRE(writer->write(random.tables, slice, losses).ok());
  }
  SECTION("after a clean end") {
    model::RecordingInfo info = random.info();
    info.recording_end_ns = 1;
    info.launch_calls = 1u << 20;
    REQUIRE(writer->finish(info).ok());
    const auto recording = open(path);
    CHECK(recording->info().end == model::End::clean);
    CHECK(recording->info().launch_calls == 1u << 20);
    CHECK(recording->info().losses.count == losses.count);
    CHECK(recording->info().warnings.empty());
    CHECK(is_same_tables(recording->tables(), random.tables));
    CHECK(is_same(visit_all(*recording), written));
    CHECK(is_same(visit_all(*recording), written));  // visit() may be called again
  }
  SECTION("without an end") {
    writer.reset();
    const auto recording = open(path);
    CHECK(recording->info().end == model::End::abrupt);
    CHECK(recording->info().losses.count == losses.count);
    CHECK(recording->info().warnings.size() == 1);
    CHECK(is_same_tables(recording->tables(), random.tables));
    CHECK(is_same(visit_all(*recording), written));
  }
}

TEST_CASE("facts about the run come back, the last ones written", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(1);
  const std::string path = folder.file("info.gpuidle");
  model::RecordingInfo info = random.info();
  auto writer = create(path, info);
  info.source = model::Source::interposition;
  info.source_reason = "CUPTI is taken by another tool";
  info.warnings = {"stepped down"};
  REQUIRE(writer->write_info(info).ok());
  info.world_size = 8;
  REQUIRE(writer->finish(info).ok());
  const auto recording = open(path);
  const model::RecordingInfo& got = recording->info();
  CHECK(got.producer == info.producer);
  CHECK(got.format == "gpuidle 1.1");
  CHECK(got.source == model::Source::interposition);
  CHECK(got.source_reason == info.source_reason);
  CHECK(got.detail_level == "full");
  CHECK(got.program == info.program);
  CHECK(got.command == info.command);
  CHECK(got.host_name == "host");
  CHECK(got.pid == 4711);
  CHECK(got.process_start_ns == info.process_start_ns);
  CHECK(got.recording_start_ns == info.recording_start_ns);
  CHECK_FALSE(got.recording_end_ns.has_value());
  CHECK(got.realtime_offset_ns == info.realtime_offset_ns);
  CHECK(got.rank == 0);
  CHECK(got.world_size == 8);
  CHECK(got.settings == info.settings);
  CHECK(got.warnings == info.warnings);
}

TEST_CASE("the last moment of a recording without an end is that of its last record", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(2);
  random.grow_tables(5);
  const std::string path = folder.file("end.gpuidle");
  auto writer = create(path, random.info());
  model::Slice slice;
  slice.activities.resize(1);
  slice.activities[0].start_ns = 2'000'000;
  slice.activities[0].end_ns = 5'000'000;
  slice.calls.resize(2);
  slice.calls[0].enter_ns = 1'900'000;
  slice.calls[0].exit_ns = 2'000'500;
  slice.calls[0].role = model::ApiRole::launch;
  slice.calls[1].enter_ns = slice.calls[1].exit_ns = 1'800'000;
  REQUIRE(writer->write(random.tables, slice, {}).ok());
  writer.reset();
  const auto recording = open(path);
  CHECK(recording->info().recording_end_ns == 5'000'000);
  CHECK(recording->info().launch_calls == 3);  // what the recorder said
}

TEST_CASE("launches are counted in a file whose recorder never told their number", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(3);
  model::RecordingInfo info = random.info();
  info.launch_calls = 0;
  const std::string path = folder.file("launches.gpuidle");
  auto writer = create(path, info);
  for (int i = 0; i < 3; ++i) {
    model::Slice slice;
    slice.calls.resize(5);
    slice.calls[1].role = model::ApiRole::launch;
    slice.calls[2].role = model::ApiRole::graph_launch;
    slice.calls[3].role = model::ApiRole::copy;
    REQUIRE(writer->write(random.tables, slice, {}).ok());
  }
  writer.reset();
  CHECK(open(path)->info().launch_calls == 6);
}

TEST_CASE("records of overlapping chunks are delivered in time order", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(4);
  random.grow_tables(30);
  const std::string path = folder.file("overlap.gpuidle");
  auto writer = create(path, random.info());
  model::Slice written;
  // Chunks come in any order and each reaches far into the others.
  for (const std::int64_t from_ns : {9, 0, 3, 3, 12, 1, 7}) {
    model::Slice slice = random.slice(from_ns * 10'000'000, 50'000'000, 12'000);
    append_to(written, slice);
    REQUIRE(writer->write(random.tables, slice, {}).ok());
  }
  REQUIRE(writer->finish(random.info()).ok());
  std::size_t slices = 0;
  CHECK(is_same(visit_all(*open(path), &slices), written));
  CHECK(slices > 3);
}

TEST_CASE("the same recording gives the same bytes", "[trace]") {
  ScratchFolder folder;
  Bytes bytes[2];
  for (int run = 0; run < 2; ++run) {
    RandomRecording random(5);
    const std::string path = folder.file("same.gpuidle");
    auto writer = create(path, random.info());
    for (int i = 0; i < 4; ++i) {
      random.grow_tables(10);
      model::Slice slice = random.slice(i * 1'000'000, 1'000'000, 200);
      // The order of arrival must not show.
      if (run == 1) std::reverse(slice.activities.begin(), slice.activities.end());
      REQUIRE(writer->write(random.tables, slice, {}).ok());
    }
    REQUIRE(writer->finish(random.info()).ok());
    bytes[run] = read_bytes(path);
    CHECK(bytes[run].size() == writer->bytes_written());
  }
  CHECK(bytes[0] == bytes[1]);
}

TEST_CASE("nothing new writes nothing", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(6);
  random.grow_tables(3);
  auto writer = create(folder.file("empty.gpuidle"), random.info());
  model::Slice slice;
  REQUIRE(writer->write(random.tables, slice, {}).ok());
  const std::uint64_t bytes = writer->bytes_written();
  REQUIRE(writer->write(random.tables, slice, {}).ok());
  REQUIRE(writer->write_info(random.info()).ok());
  CHECK(writer->bytes_written() == bytes);
}

TEST_CASE("dictionaries larger than a chunk are split and come back whole", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(7);
  for (int i = 0; i < 70'000; ++i) random.tables.intern("string number " + std::to_string(i));
  random.tables.intern(std::string(3u << 20, 'x'));  // one string alone exceeds a chunk's share
  random.grow_tables(2000);
  const std::string path = folder.file("large.gpuidle");
  auto writer = create(path, random.info());
  model::Slice slice;
  REQUIRE(writer->write(random.tables, slice, {}).ok());
  REQUIRE(writer->finish(random.info()).ok());
  CHECK(is_same_tables(open(path)->tables(), random.tables));
}

TEST_CASE("records that no reader would accept are left out and counted", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(8);
  const std::string path = folder.file("insane.gpuidle");
  auto writer = create(path, random.info());
  model::Slice slice;
  slice.activities.resize(3);
  slice.activities[0].start_ns = 10;
  slice.activities[0].end_ns = 9;
  slice.activities[1].start_ns = 10;
  slice.activities[1].end_ns = INT64_MAX;
  slice.activities[2].start_ns = 10;
  slice.activities[2].end_ns = 20;
  model::Losses losses;
  losses.count[1] = 7;
  REQUIRE(writer->write(random.tables, slice, losses).ok());
  REQUIRE(writer->finish(random.info()).ok());
  const auto recording = open(path);
  CHECK(visit_all(*recording).activities.size() == 1);
  using model::LossReason;
  const auto& count = recording->info().losses.count;
  CHECK(count[static_cast<std::size_t>(LossReason::reversed_timestamp)] == 1);
  CHECK(count[static_cast<std::size_t>(LossReason::outside_session)] == 1);
  CHECK(count[static_cast<std::size_t>(LossReason::ring_full)] == 7);
}

TEST_CASE("an existing file is never overwritten", "[trace]") {
  ScratchFolder folder;
  const std::string path = folder.file("there.gpuidle");
  write_bytes(path, {1, 2, 3});
  const auto writer = trace::TraceWriter::create(path, {}, {});
  REQUIRE_FALSE(writer.ok());
  CHECK(writer.status().code() == base::StatusCode::io_error);
  CHECK(writer.status().message() == "cannot create " + path + ": File exists");
  CHECK(read_bytes(path) == Bytes{1, 2, 3});
}

TEST_CASE("the descriptor of a trace is not inherited by programs that the host starts",
          "[trace]") {
  ScratchFolder folder;
  const int fd = ::open(folder.file("adopted.gpuidle").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(fd >= 0);
  const auto writer = trace::TraceWriter::adopt(fd, "adopted", {}, {});
  REQUIRE(writer.ok());
  CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a full disk is reported once for all, and the host gets no signal", "[trace]") {
  const int fd = ::open("/dev/full", O_WRONLY);
  if (fd < 0) {
    WARN("skipped: no /dev/full here");
    return;
  }
  const auto writer = trace::TraceWriter::adopt(fd, "/dev/full", {}, {});
  REQUIRE_FALSE(writer.ok());
  CHECK(writer.status().code() == base::StatusCode::io_error);
  CHECK(writer.status().message() == "cannot write /dev/full at offset 0: No space left on device");
}

TEST_CASE("a file that reached its size limit stays readable up to there", "[trace]") {
  ScratchFolder folder;
  RandomRecording random(9);
  random.grow_tables(20);
  const std::string path = folder.file("limited.gpuidle");
  auto writer = create(path, random.info());
  model::Slice first = random.slice(0, 1'000'000, 100);
  const model::Slice written = first;
  REQUIRE(writer->write(random.tables, first, {}).ok());

  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit limited{writer->bytes_written() + 1000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limited) == 0);
  model::Slice second = random.slice(1'000'000, 1'000'000, 500);
  // Without the writer's care SIGXFSZ would end this very process here.
  const base::Status failed = writer->write(random.tables, second, {});
  const std::uint64_t bytes = writer->bytes_written();
  const base::Status again = writer->write(random.tables, second, {});
  const base::Status finished = writer->finish(random.info());
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);

  CHECK(failed.code() == base::StatusCode::io_error);
  CHECK(failed.message().find("File too large") != std::string::npos);
  CHECK(again.message() == failed.message());
  CHECK(finished.message() == failed.message());
  CHECK(writer->bytes_written() == bytes);
  const auto recording = open(path);
  CHECK(recording->info().end == model::End::abrupt);
  CHECK(is_same(visit_all(*recording), written));
}
