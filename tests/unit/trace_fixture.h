// SPDX-License-Identifier: Apache-2.0
//
// What the trace tests share: a scratch file, random recordings that use every field, a visitor
// that keeps everything, and comparison of what went in with what came out.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/trace/trace_reader.h"
#include "libgpuidle/trace/trace_writer.h"

namespace gpuidle::trace::test {

using Bytes = std::vector<std::uint8_t>;

/// A folder that goes away with everything in it that the test named.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* base = std::getenv("TMPDIR");
    std::string pattern = std::string(base != nullptr ? base : "/tmp") + "/trace_test.XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~ScratchFolder() {
    for (const std::string& file : files_) std::remove(file.c_str());
    rmdir(path_.c_str());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// A path in the folder; what lies there is removed first.
  std::string file(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    std::remove(files_.back().c_str());
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

inline Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_bytes(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  REQUIRE(out.good());
}

/// Keeps all records and checks what every slice promises.
class Collector : public model::SliceVisitor {
 public:
  model::Slice all;
  std::size_t slices = 0;

  void on_slice(const model::Slice& slice) override {
    const bool is_first = slices++ == 0;
    bool keeps_promise = slice.begin_ns < slice.end_ns && (is_first || slice.begin_ns >= end_ns_);
    const auto take = [&](const auto& rows, auto& into, auto start_of, bool runs_ahead) {
      for (const auto& row : rows) {
        keeps_promise &= into.empty() || start_of(into.back()) <= start_of(row);
        if (!runs_ahead) {
          keeps_promise &= start_of(row) >= slice.begin_ns && start_of(row) < slice.end_ns;
        }
        into.push_back(row);
      }
    };
    const auto start_ns = [](const auto& row) { return row.start_ns; };
    take(slice.activities, all.activities, start_ns, false);
    take(
        slice.calls, all.calls, [](const auto& row) { return row.enter_ns; }, true);
    take(slice.markers, all.markers, start_ns, false);
    take(slice.overheads, all.overheads, start_ns, false);
    take(slice.unobserved, all.unobserved, start_ns, false);
    take(slice.gaps, all.gaps, start_ns, false);
    take(slice.samples, all.samples, start_ns, false);
    // Calls lead: none that could belong to this slice's activities is still to come.
    if (call_floor_ns_) {
      for (const auto& call : slice.calls) keeps_promise &= call.enter_ns >= *call_floor_ns_;
    }
    call_floor_ns_ = slice.end_ns + model::kCallLead_ns;
    end_ns_ = slice.end_ns;
    promises_kept_ &= keeps_promise;
  }
  bool promises_kept() const { return promises_kept_; }

 private:
  std::int64_t end_ns_ = 0;
  std::optional<std::int64_t> call_floor_ns_;
  bool promises_kept_ = true;
};

inline auto fields(const model::DeviceActivity& a) {
  return std::make_tuple(a.start_ns, a.end_ns, a.bytes, a.device, a.context, a.stream,
                         a.correlation, a.graph, a.kernel, a.name, a.kind, a.copy, a.source,
                         a.destination, a.is_async);
}
inline auto fields(const model::ApiCall& c) {
  return std::make_tuple(c.enter_ns, c.exit_ns, c.correlation, c.result, c.thread, c.api, c.stack,
                         c.role);
}
inline auto fields(const model::Marker& m) {
  return std::make_tuple(m.start_ns, m.end_ns, m.name, m.thread, m.kind);
}
inline auto fields(const model::Overhead& o) {
  return std::make_tuple(o.start_ns, o.end_ns, o.thread, o.name, o.is_profiler);
}
inline auto fields(const model::Unobserved& u) {
  return std::make_tuple(u.start_ns, u.end_ns, u.reason);
}
inline auto fields(const model::RecordedGap& g) {
  return std::make_tuple(g.start_ns, g.end_ns, g.device, g.closing_correlation);
}
inline auto fields(const model::ThreadSample& s) {
  return std::make_tuple(s.start_ns, s.end_ns, s.cpu_ns, s.run_queue_wait_ns, s.throttled_ns,
                         s.major_faults, s.system_call, s.thread, s.stack, s.activity, s.target,
                         s.is_child_process, s.has_counts);
}

/// The rows as a sorted multiset, so that the order of equal starts does not matter.
template <typename Row>
auto as_set(const std::vector<Row>& rows) {
  std::vector<decltype(fields(std::declval<Row>()))> all;
  for (const Row& row : rows) all.push_back(fields(row));
  std::sort(all.begin(), all.end());
  return all;
}
inline bool is_same(const model::Slice& a, const model::Slice& b) {
  return as_set(a.activities) == as_set(b.activities) && as_set(a.calls) == as_set(b.calls) &&
         as_set(a.markers) == as_set(b.markers) && as_set(a.overheads) == as_set(b.overheads) &&
         as_set(a.unobserved) == as_set(b.unobserved) && as_set(a.gaps) == as_set(b.gaps) &&
         as_set(a.samples) == as_set(b.samples);
}

template <typename Row>
void append_to(std::vector<Row>& all, const std::vector<Row>& more) {
  all.insert(all.end(), more.begin(), more.end());
}
inline void append_to(model::Slice& all, const model::Slice& more) {
  append_to(all.activities, more.activities);
  append_to(all.calls, more.calls);
  append_to(all.markers, more.markers);
  append_to(all.overheads, more.overheads);
  append_to(all.unobserved, more.unobserved);
  append_to(all.gaps, more.gaps);
  append_to(all.samples, more.samples);
}

/// Random dictionaries and records; equal seeds give equal recordings.
class RandomRecording {
 public:
  explicit RandomRecording(unsigned seed) : random_(seed) {}

  model::Tables tables;
  model::RecordingInfo info() {
    model::RecordingInfo info;
    info.producer = "libgpuidle test";
    info.source = model::Source::cupti;
    info.source_reason = "because";
    info.detail_level = "full";
    info.program = "/bin/program";
    info.command = {"program", "", "--flag=\"x\"\n"};
    info.host_name = "host";
    info.pid = 4711;
    info.process_start_ns = 1;
    info.recording_start_ns = 1'000'000;
    info.realtime_offset_ns = 1'700'000'000'000'000'000;
    info.rank = 0;
    info.launch_calls = 3;
    info.settings = {"GPUIDLE_OUTPUT=x"};
    return info;
  }
  void grow_tables(std::size_t rows);
  /// Records with starts in [from_ns, from_ns + span_ns), about `count` of each kind.
  model::Slice slice(std::int64_t from_ns, std::int64_t span_ns, std::size_t count);

  std::uint64_t below(std::uint64_t limit) {
    return std::uniform_int_distribution<std::uint64_t>(0, limit - 1)(random_);
  }

 private:
  std::uint32_t id(std::size_t size) { return static_cast<std::uint32_t>(below(size)); }
  std::mt19937_64 random_;
};

inline void RandomRecording::grow_tables(std::size_t rows) {
  for (std::size_t i = 0; i < rows; ++i) {
    std::string text(below(30), '\0');
    for (char& c : text) c = static_cast<char>(below(256));
    tables.intern(text);
    const auto string = [&] { return id(tables.strings().size()); };
    model::Module module;
    module.path = string();
    module.build_id = std::string(below(3) * 10, static_cast<char>(below(256)));
    module.load_bias = below(UINT64_MAX);
    module.begin_address = below(UINT64_MAX);
    module.end_address = below(UINT64_MAX);
    tables.intern(module);
    model::Frame frame;
    frame.address = below(UINT64_MAX);
    frame.module = id(tables.modules().size());
    frame.function = string();
    frame.file = string();
    frame.line = id(UINT32_MAX);
    frame.kind = static_cast<model::Frame::Kind>(below(4));
    tables.intern(frame);
    std::vector<model::FrameId> frames(1 + below(20));
    for (auto& f : frames) f = id(tables.frames().size());
    tables.intern_stack(frames.data(), frames.size());
    model::Kernel kernel;
    kernel.name = string();
    for (auto& x : kernel.grid) x = id(1000);
    for (auto& x : kernel.block) x = id(1000);
    kernel.registers_per_thread = id(256);
    kernel.static_shared_bytes = id(UINT32_MAX);
    kernel.dynamic_shared_bytes = id(65536);
    tables.intern(kernel);
    tables.intern_thread(id(UINT32_MAX), id(UINT32_MAX), text);
    tables.intern_api("cudaCall" + std::to_string(tables.apis().size()),
                      static_cast<model::ApiRole>(below(14)));
  }
  model::Device device;
  device.ordinal = id(3);
  device.name = tables.intern("NVIDIA Test");
  device.multiprocessors = 132;
  device.compute_major = 9;
  device.memory_bytes = below(UINT64_MAX);
  device.merely_listed = below(2) == 1;
  tables.set_device(device);
}

inline model::Slice RandomRecording::slice(std::int64_t from_ns, std::int64_t span_ns,
                                           std::size_t count) {
  model::Slice s;
  const auto start = [&] {
    return from_ns + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(span_ns)));
  };
  const auto duration = [&] { return static_cast<std::int64_t>(below(1ull << below(40))); };
  const auto string = [&] { return id(tables.strings().size()); };
  const auto thread = [&] { return id(tables.threads().size()); };
  for (std::size_t i = 0; i < count; ++i) {
    model::DeviceActivity a;
    a.start_ns = start();
    a.end_ns = a.start_ns + duration();
    a.bytes = below(2) * below(UINT64_MAX);
    a.device = id(3);
    a.context = id(4);
    a.stream = id(1 + below(100));
    a.correlation = id(UINT32_MAX);
    a.graph = id(2) * id(UINT32_MAX);
    a.kernel = id(tables.kernels().size());
    a.name = string();
    a.kind = static_cast<model::ActivityKind>(below(5));
    a.copy = static_cast<model::CopyKind>(below(6));
    a.source = static_cast<model::MemoryKind>(below(8));
    a.destination = static_cast<model::MemoryKind>(below(8));
    a.is_async = below(2) == 1;
    s.activities.push_back(a);
    model::ApiCall c;
    c.enter_ns = start();
    c.exit_ns = c.enter_ns + duration();
    c.correlation = id(UINT32_MAX);
    c.result = below(5) == 0 ? -static_cast<std::int32_t>(below(1000)) : 0;
    c.thread = thread();
    c.api = id(tables.apis().size());
    c.stack = id(tables.stack_count());
    c.role = static_cast<model::ApiRole>(below(14));
    s.calls.push_back(c);
  }
  for (std::size_t i = 0; i < count / 4; ++i) {
    std::int64_t at = start();
    s.markers.push_back(
        {at, at + duration(), string(), thread(), static_cast<model::Marker::Kind>(below(3))});
    at = start();
    s.overheads.push_back({at, at + duration(), thread(), string(), below(2) == 1});
    at = start();
    s.unobserved.push_back({at, at + duration(), string()});
    at = start();
    s.gaps.push_back({at, at + duration(), id(3), id(UINT32_MAX)});
    model::ThreadSample sample;
    sample.start_ns = start();
    sample.end_ns = sample.start_ns + duration();
    sample.cpu_ns = below(2) * below(UINT64_MAX);
    sample.run_queue_wait_ns = below(2) * below(1'000'000);
    sample.throttled_ns = below(2) * below(1'000'000);
    sample.major_faults = id(2) * id(UINT32_MAX);
    sample.system_call = static_cast<std::int32_t>(below(400)) - 1;
    sample.thread = thread();
    sample.stack = id(tables.stack_count());
    sample.activity = static_cast<model::ThreadActivity>(below(5));
    sample.target = static_cast<model::WaitTarget>(below(15));
    sample.is_child_process = below(2) == 1;
    sample.has_counts = below(2) == 1;
    s.samples.push_back(sample);
  }
  return s;
}

}  // namespace gpuidle::trace::test
