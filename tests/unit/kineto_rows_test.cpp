// SPDX-License-Identifier: Apache-2.0
//
// The variants of Kineto's JSON, one small text each.
#include <catch2/catch.hpp>

#include "tests/unit/kineto_reading.h"

namespace gpuidle {
namespace {

using model::ActivityKind;
using test::Everything;
using test::recording_of;
using test::recording_of_rows;

constexpr const char* kKernel =
    R"json({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10.250, "dur": 2.5,
        "args": {"device": 0, "context": 1, "stream": 7, "correlation": 42}})json";

TEST_CASE("a row has the same meaning in an object and in a bare array", "[kineto]") {
  for (const std::string& json :
       {std::string(R"json({"traceEvents": [)json") + kKernel + "]}",
        std::string("[") + kKernel + "]", std::string("\n\n  [ ") + kKernel + " ]\n"}) {
    const auto recording = recording_of(json);
    const Everything all(*recording);
    REQUIRE(all.activities.size() == 1);
    CHECK(all.activities[0].kind == ActivityKind::kernel);
    CHECK(all.activities[0].start_ns == 10250);
    CHECK(all.activities[0].end_ns == 12750);
    CHECK(all.activities[0].context == 1);
    CHECK(all.activities[0].stream == 7);
    CHECK(all.activities[0].correlation == 42);
    CHECK(recording->info().source == model::Source::imported);
    CHECK(recording->info().warnings.empty());
  }
}

TEST_CASE("categories of all ages are known in any case", "[kineto]") {
  const auto with_category = [](const std::string& category) {
    return R"json({"ph":"X","cat":")json" + category +
           R"json(","name":"n","pid":0,"tid":1,"ts":1,"dur":1,"args":{"correlation":5}})json";
  };
  const auto kind_of = [&](const std::string& category) {
    const Everything all(*recording_of_rows(with_category(category)));
    return all.activities.empty() ? ActivityKind::unknown : all.activities[0].kind;
  };
  for (const char* category : {"Kernel", "kernel", "KERNEL"}) {
    CHECK(kind_of(category) == ActivityKind::kernel);
  }
  for (const char* category : {"Memcpy", "gpu_memcpy"}) {
    CHECK(kind_of(category) == ActivityKind::memcpy);
  }
  for (const char* category : {"Memset", "gpu_memset"}) {
    CHECK(kind_of(category) == ActivityKind::memset);
  }
  for (const char* category :
       {"gpu_user_annotation", "cuda_sync", "overhead", "cuda_profiler_range", "mtia_ccp_events",
        "ac2g", "Trace", "", "cpu_op"}) {
    INFO(category);
    CHECK(kind_of(category) == ActivityKind::unknown);
  }
  for (const char* category : {"Runtime", "cuda_runtime", "cuda_driver", "hip_runtime"}) {
    INFO(category);
    const std::string row =
        R"json({"ph":"X","cat":")json" + std::string(category) +
        R"json(","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1,"dur":1})json";
    CHECK(Everything(*recording_of_rows(row)).calls.size() == 1);
  }
}

TEST_CASE("keys may come in any order", "[kineto]") {
  const auto recording = recording_of(
      R"json({"traceName": "t", "traceEvents": [
          {"args": {"stream": 3, "device": 1, "correlation": 8, "grid": [ 4, 2,1 ], "block": [128,1,1]},
           "cat": "kernel", "dur": 1, "name": "k", "ph": "X", "pid": 0, "tid": 0, "ts": 5},
          {"args": {"name": "trainer"}, "name": "thread_name", "ph": "M", "pid": 9, "tid": 9, "ts": 0},
          {"args": {"correlation": 8}, "cat": "cuda_runtime", "dur": 1, "name": "cudaLaunchKernel",
           "ph": "X", "pid": 9, "tid": 9, "ts": 4}],
        "baseTimeNanoseconds": 1700000000000000000,
        "distributedInfo": {"backend": "nccl", "world_size": 8, "rank": 3},
        "deviceProperties": [{"id": 1, "name": "GPU", "numSms": 108, "totalGlobalMem": 42297524224,
                              "computeMajor": 8, "computeMinor": 0}, {"id": 0, "name": "GPU"}]})json");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 1);
  CHECK(all.activities[0].device == 1);
  CHECK(all.activities[0].stream == 3);
  const model::Kernel& kernel = recording->tables().kernels()[all.activities[0].kernel];
  CHECK(kernel.grid == std::array<std::uint32_t, 3>{4, 2, 1});
  CHECK(kernel.block == std::array<std::uint32_t, 3>{128, 1, 1});
  CHECK(recording->info().rank == 3);
  CHECK(recording->info().world_size == 8);
  CHECK(recording->info().realtime_offset_ns == 1700000000000000000);
  CHECK(recording->info().pid == 9);
  REQUIRE(all.calls.size() == 1);
  const model::Thread& thread = recording->tables().threads()[all.calls[0].thread];
  CHECK(thread.tid == 9);
  CHECK(recording->tables().string(thread.name) == "trainer");
}

TEST_CASE("devices that did nothing are merely listed", "[kineto]") {
  const auto recording = recording_of(
      std::string(
          R"json({"deviceProperties": [{"id": 0, "name": "A", "numSms": 80}, {"id": 1, "name": "A"}],
                     "traceEvents": [)json") +
      kKernel + "]}");
  const auto& devices = recording->tables().devices();
  REQUIRE(devices.size() == 2);
  for (const model::Device& device : devices) {
    CHECK(device.merely_listed == (device.ordinal == 1));
    if (device.ordinal == 0) CHECK(device.multiprocessors == 80);
  }
}

TEST_CASE("on ROCm a device takes from the list only what all listed ones share", "[kineto]") {
  const auto recording = recording_of(
      R"json({"roctracer_version": "4.1", "traceEvents": [
          {"ph":"X","cat":"kernel","name":"k","pid":2,"tid":0,"ts":1,"dur":1,"args":{"device":2}}],
        "deviceProperties": [{"id": 0, "name": "MI300X", "numSms": 304}]})json");
  const auto& devices = recording->tables().devices();
  REQUIRE(devices.size() == 2);
  const auto used = std::find_if(devices.begin(), devices.end(),
                                 [](const model::Device& d) { return d.ordinal == 2; });
  REQUIRE(used != devices.end());
  CHECK_FALSE(used->merely_listed);
  CHECK(recording->tables().string(used->name) == "MI300X");
  CHECK(used->multiprocessors == 0);
}

TEST_CASE("device and stream fall back to pid and tid, which may be texts", "[kineto]") {
  const Everything all(*recording_of_rows(
      R"json({"ph":"X","cat":"Kernel","name":"a","pid":2,"tid":"stream 7","ts":1,"dur":1},
         {"ph":"X","cat":"kernel","name":"b","pid":"3","tid":"default","ts":2,"dur":1},
         {"ph":"X","cat":"kernel","name":"c","pid":3,"tid":"other","ts":3,"dur":1},
         {"ph":"X","cat":"kernel","name":"d","pid":9,"tid":9,"ts":4,"dur":1,
          "args":{"device":null,"stream":"stream 12"}})json"));
  REQUIRE(all.activities.size() == 4);
  CHECK(all.activities[0].device == 2);
  CHECK(all.activities[0].stream == 7);
  CHECK(all.activities[1].device == 3);
  CHECK(all.activities[1].stream != all.activities[2].stream);
  CHECK(all.activities[3].device == 9);
  CHECK(all.activities[3].stream == 12);
}

TEST_CASE("integers over int64 in arguments do no harm", "[kineto]") {
  const Everything all(*recording_of_rows(
      R"json({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":0,"ts":1,"dur":1,
          "args":{"Comms Id": 10159970886766084423, "correlation": 18446744073709551615}},
         {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":0,"ts":3,
          "dur":1,"args":{
  "bytes" : 5000000000}})json"));
  REQUIRE(all.activities.size() == 2);
  CHECK(all.activities[1].bytes == 5000000000U);
}

TEST_CASE("copies say from where to where and whether the call was asynchronous", "[kineto]") {
  const auto recording = recording_of_rows(
      R"json({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":5,
          "dur":1,"args":{
  "correlation" : 1, "bytes" : 64}},
         {"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pinned)","pid":0,"tid":7,"ts":7,
          "dur":1,"args":{"correlation":2}},
         {"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":7,"ts":9,"dur":1},
         {"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":9,"tid":9,"ts":4,"dur":1,
          "args":{"correlation":1}},
         {"ph":"X","cat":"cuda_runtime","name":"cudaMemcpy","pid":9,"tid":9,"ts":6,"dur":2,
          "args":{"correlation":2}})json");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 3);
  CHECK(all.activities[0].copy == model::CopyKind::host_to_device);
  CHECK(all.activities[0].source == model::MemoryKind::pageable);
  CHECK(all.activities[0].destination == model::MemoryKind::device);
  CHECK(all.activities[0].bytes == 64);
  CHECK(all.activities[0].is_async);
  CHECK(all.activities[1].copy == model::CopyKind::device_to_host);
  CHECK(all.activities[1].destination == model::MemoryKind::pinned);
  CHECK_FALSE(all.activities[1].is_async);
  CHECK(all.activities[2].destination == model::MemoryKind::device);
}

TEST_CASE("rows without a usable time are left out, counted and told", "[kineto]") {
  const auto recording =
      recording_of_rows(std::string(kKernel) +
                        R"json(, {"ph":"X","cat":"kernel","name":"no dur","pid":0,"tid":0,"ts":1},
         {"ph":"X","cat":"kernel","name":"nan","pid":0,"tid":0,"ts":NaN,"dur":1},
         {"ph":"X","cat":"kernel","name":"inf","pid":0,"tid":0,"ts":1,"dur":Infinity},
         {"ph":"X","cat":"kernel","name":"huge","pid":0,"tid":0,"ts":9e15,"dur":9e15},
         {"ph":"X","cat":"kernel","name":"negative","pid":0,"tid":0,"ts":5,"dur":-1},
         {"ph":"X","cat":"kernel","name":"lost","pid":0,"tid":0,"ts":0,"dur":0},
         17, "text", null, [1])json");
  CHECK(Everything(*recording).activities.size() == 1);
  const auto& count = recording->info().losses.count;
  CHECK(count[static_cast<std::size_t>(model::LossReason::unknown_record)] == 8);
  CHECK(count[static_cast<std::size_t>(model::LossReason::reversed_timestamp)] == 1);
  CHECK(count[static_cast<std::size_t>(model::LossReason::zero_timestamp)] == 1);
  CHECK(recording->info().warnings.size() == 3);
}

TEST_CASE("times may be texts", "[kineto]") {
  const Everything all(*recording_of_rows(
      R"json({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":0,"ts":"12.345","dur":"1"})json"));
  REQUIRE(all.activities.size() == 1);
  CHECK(all.activities[0].start_ns == 12345);
  CHECK(all.activities[0].end_ns == 13345);
}

TEST_CASE("the profiler's own window is when the recording began and ended", "[kineto]") {
  const auto recording = recording_of_rows(
      std::string(kKernel) +
      R"json(, {"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans",
            "tid":"PyTorch Profiler","ts":2,"dur":100})json");
  CHECK(recording->info().recording_start_ns == 2000);
  CHECK(recording->info().recording_end_ns == 102000);
  CHECK_FALSE(recording_of_rows(kKernel)->info().recording_start_ns.has_value());
}

TEST_CASE("times since 1970 need no base, other times have none without it", "[kineto]") {
  const std::string row =
      R"json({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":0,"dur":1,"ts":)json";
  CHECK(recording_of_rows(row + "1623142623460072}")->info().realtime_offset_ns == 0);
  CHECK_FALSE(recording_of_rows(row + "88437691101.729}")->info().realtime_offset_ns.has_value());
}

TEST_CASE("steps and ranges are markers, overhead is the profiler's or the program's", "[kineto]") {
  const auto recording = recording_of_rows(
      R"json({"ph":"X","cat":"user_annotation","name":"ProfilerStep#12","pid":9,"tid":9,"ts":1,"dur":9},
         {"ph":"X","cat":"cpu_op","name":"ProfilerStep#13","pid":9,"tid":9,"ts":11,"dur":9},
         {"ph":"X","cat":"user_annotation","name":"forward","pid":9,"tid":9,"ts":2,"dur":3},
         {"ph":"X","cat":"gpu_user_annotation","name":"forward","pid":0,"tid":7,"ts":2,"dur":3},
         {"ph":"X","cat":"overhead","name":"Activity Buffer Request","pid":-1,"tid":0,"ts":3,"dur":1},
         {"ph":"X","cat":"overhead","name":"Lazy Function Loading","pid":-1,"tid":0,"ts":5,"dur":1})json");
  const Everything all(*recording);
  REQUIRE(all.markers.size() == 3);
  CHECK(all.markers[0].kind == model::Marker::Kind::step);
  CHECK(all.markers[1].kind == model::Marker::Kind::range);
  CHECK(recording->tables().string(all.markers[1].name) == "forward");
  CHECK(all.markers[2].kind == model::Marker::Kind::step);
  REQUIRE(all.overheads.size() == 2);
  CHECK(all.overheads[0].is_profiler);
  CHECK_FALSE(all.overheads[1].is_profiler);
  CHECK(all.overheads[1].start_ns == 5000);
}

TEST_CASE("escapes in names are resolved", "[kineto]") {
  const auto recording = recording_of_rows(
      R"json({"ph":"X","cat":"kernel","name":"a\"b\\c\u0041\u00e9\ud83d\ude00\n\ud800","pid":0,"tid":0,
          "ts":1,"dur":1})json");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 1);
  const auto& kernel = recording->tables().kernels()[all.activities[0].kernel];
  CHECK(recording->tables().string(kernel.name) == "a\"b\\cA\xc3\xa9\xf0\x9f\x98\x80\n?");
}

TEST_CASE("unknown categories are named in a warning", "[kineto]") {
  const auto recording = recording_of_rows(
      R"json({"ph":"X","cat":"mtia_ccp_events","name":"a","pid":0,"tid":0,"ts":1,"dur":1})json");
  REQUIRE_FALSE(recording->info().warnings.empty());
  CHECK(recording->info().warnings[0].find("mtia_ccp_events") != std::string::npos);
}

TEST_CASE("names of users, hosts and jobs do not become settings", "[kineto]") {
  const auto recording = recording_of(
      R"json({"username": "someone", "tw_job": "secret", "with_stack": 1, "traceEvents": []})json");
  CHECK(recording->info().settings == std::vector<std::string>{"with_stack=1"});
}

}  // namespace
}  // namespace gpuidle
