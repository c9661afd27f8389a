// SPDX-License-Identifier: Apache-2.0
//
// What each table of an Nsight Systems export becomes: device work, calls, markers, overheads,
// devices and facts, with the columns and tables that not every schema has.
#include <catch2/catch.hpp>
#include <map>

#include "tests/unit/nsys_database.h"

namespace gpuidle {
namespace {

using model::ActivityKind;
using model::ApiRole;
using test::Everything;
using test::export_with;
using test::global_id;

const std::string kPid = global_id(50), kTid = global_id(50, 51), kOtherPid = global_id(60),
                  kOtherTid = global_id(60, 61);

bool has_warning(const model::Recording& recording, const std::string& text) {
  const auto& warnings = recording.info().warnings;
  return std::any_of(warnings.begin(), warnings.end(), [&text](const std::string& warning) {
    return warning.find(text) != std::string::npos;
  });
}

// A kernel of `kernel_columns` = start, end, device, correlation, globalPid.
std::string kernel(const std::string& kernel_columns) {
  return "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, correlationId, globalPid)"
         " VALUES (" +
         kernel_columns + ");";
}

std::string call(const std::string& start_end_class, const std::string& tid,
                 const std::string& correlation_and_name) {
  return "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + start_end_class + "," + tid + "," +
         correlation_and_name + ",0);";
}

std::string name(int id, const std::string& text) {
  return "INSERT INTO StringIds VALUES (" + std::to_string(id) + ",'" + text + "');";
}

TEST_CASE("a kernel row has its mangled name and its shape", "[nsys]") {
  const auto recording =
      export_with(name(1, "_Z3addv") + name(2, "add") +
                  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 250, 1, 2, 7, 9, " + kPid +
                  ", 2, 2, 1, 40, 5, 6, 7, 32, 4, 2, 1024, 2048, NULL);");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 1);
  const model::DeviceActivity& activity = all.activities[0];
  CHECK(activity.kind == ActivityKind::kernel);
  CHECK(activity.start_ns == 100);
  CHECK(activity.end_ns == 250);
  CHECK(activity.device == 1);
  CHECK(activity.context == 2);
  CHECK(activity.stream == 7);
  CHECK(activity.correlation == 9);
  CHECK(activity.graph == 0);
  const model::Kernel& row = recording->tables().kernels()[activity.kernel];
  CHECK(recording->tables().string(row.name) == "_Z3addv");
  CHECK(row.grid == std::array<std::uint32_t, 3>{5, 6, 7});
  CHECK(row.block == std::array<std::uint32_t, 3>{32, 4, 2});
  CHECK(row.registers_per_thread == 40);
  CHECK(row.static_shared_bytes == 1024);
  CHECK(row.dynamic_shared_bytes == 2048);
  CHECK(recording->info().pid == 50);
}

TEST_CASE("a kernel without a mangled name has the demangled or the short one", "[nsys]") {
  const auto recording =
      export_with(name(1, "void add<float>()") + name(2, "add") +
                  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, demangledName, "
                  "shortName) VALUES (1, 2, 0, 1, 2), (3, 4, 0, NULL, 2), (5, 6, 0, NULL, 99);");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 3);
  const auto name_of = [&](std::size_t i) {
    return recording->tables().string(recording->tables().kernels()[all.activities[i].kernel].name);
  };
  CHECK(name_of(0) == "void add<float>()");
  CHECK(name_of(1) == "add");
  CHECK(name_of(2).empty());  // an id that names no string
}

TEST_CASE("copies and sets have bytes, direction and kinds of memory", "[nsys]") {
  const auto recording = export_with(
      name(1, "cudaMemcpyAsync_v3020") + name(2, "cudaMemcpy_v3020") + call("1,2,0", kTid, "1,1") +
      call("3,9,0", kTid, "2,2") + "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10,20,0,1,7,1," +
      kPid + ",64,1,1,2), (30,40,0,1,7,2," + kPid + ",65,2,2,0), (50,60,0,1,7,3," + kPid +
      ",66,10,2,2), (70,80,0,1,7,4," + kPid + ",67,99,7,NULL);" +
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (90,95,0,1,7,5," + kPid + ",68,2);");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 5);
  const auto& a = all.activities;
  CHECK(a[0].copy == model::CopyKind::host_to_device);
  CHECK(a[0].source == model::MemoryKind::pinned);
  CHECK(a[0].destination == model::MemoryKind::device);
  CHECK(a[0].bytes == 64);
  CHECK(a[0].is_async);
  CHECK(a[1].copy == model::CopyKind::device_to_host);
  CHECK(a[1].destination == model::MemoryKind::pageable);
  CHECK_FALSE(a[1].is_async);
  CHECK(a[2].copy == model::CopyKind::peer);
  CHECK(a[3].copy == model::CopyKind::unknown);
  CHECK(a[3].source == model::MemoryKind::unknown);
  CHECK(a[3].destination == model::MemoryKind::unknown);
  CHECK(a[4].kind == ActivityKind::memset);
  CHECK(a[4].destination == model::MemoryKind::device);
  CHECK(a[4].bytes == 68);
}

TEST_CASE("launches of whole graphs are device work", "[nsys]") {
  const auto recording = export_with(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER,"
      " graphId INTEGER, graphExecId INTEGER, contextId INTEGER, streamId INTEGER, correlationId"
      " INTEGER, globalPid INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES"
      " (10, 90, 0, 3, 4, 1, 7, 5, " +
      kPid + ");" + kernel("100, 110, 0, 6, " + kPid) +
      "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = (8 << 32) + 1;");
  const Everything all(*recording);
  REQUIRE(all.activities.size() == 2);
  CHECK(all.activities[0].kind == ActivityKind::graph);
  CHECK(all.activities[0].graph == 3);
  CHECK(all.activities[1].kind == ActivityKind::kernel);
  CHECK(all.activities[1].graph == 8);
}

TEST_CASE("calls lose the suffix of their version and take their role by name", "[nsys]") {
  // syncType says "event": it means different things from version to version and is not asked.
  const auto recording = export_with(
      name(1, "cudaLaunchKernel_v7000") + name(2, "cudaDeviceSynchronize_v3020") +
      name(3, "cudaEventCreateWithFlags_v3020") + name(4, "main") +
      "INSERT INTO ThreadNames VALUES (3, 10, " + kTid + "), (4, 20, " + kTid + ");" +
      call("10,20,0", kTid, "1,1") + call("30,90,0", kTid, "2,2") + call("95,96,0", kTid, "3,3") +
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (30, 90, 0, 2, " + kPid + ", 1);" +
      kernel("25, 85, 0, 1, " + kPid));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 2);  // creating an event neither feeds nor stalls a device
  const model::Tables& tables = recording->tables();
  CHECK(tables.string(tables.apis()[all.calls[0].api].name) == "cudaLaunchKernel");
  CHECK(all.calls[0].role == ApiRole::launch);
  CHECK(tables.string(tables.apis()[all.calls[1].api].name) == "cudaDeviceSynchronize");
  CHECK(all.calls[1].role == ApiRole::sync_blocking);
  CHECK(all.calls[0].correlation == 1);
  const model::Thread& thread = tables.threads()[all.calls[0].thread];
  CHECK(thread.pid == 50);
  CHECK(thread.tid == 51);
  CHECK(tables.string(thread.name) == "main");  // the name of the highest priority
  CHECK(recording->info().launch_calls == 1);
  CHECK(all.activities.size() == 1);
}

TEST_CASE("a call that is listed once more as a backtrace counts once", "[nsys]") {
  const auto recording =
      export_with(name(1, "cudaMemcpy") + name(2, "cudaMemcpy_v3020") +
                  call("100,200,67", kTid, "7,1") + call("101,199,0", kTid, "7,2"));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 1);
  CHECK(all.calls[0].enter_ns == 101);
  CHECK(all.calls[0].exit_ns == 199);
}

TEST_CASE("correlation ids of one process are kept, of several are made unique", "[nsys]") {
  const std::string one = name(1, "cudaLaunchKernel_v7000") + call("1,2,0", kTid, "77,1") +
                          kernel("10, 20, 0, 77, " + kPid);
  CHECK(Everything(*export_with(one)).activities[0].correlation == 77);

  const auto both =
      export_with(one + call("3,4,0", kOtherTid, "77,1") + kernel("11, 21, 1, 77, " + kOtherPid) +
                  kernel("30, 31, 1, 78, " + kOtherPid));
  const Everything all(*both);
  REQUIRE(all.activities.size() == 3);
  REQUIRE(all.calls.size() == 2);
  const auto thread_pid = [&](const model::ApiCall& c) {
    return both->tables().threads()[c.thread].pid;
  };
  REQUIRE(thread_pid(all.calls[0]) == 50);
  REQUIRE(thread_pid(all.calls[1]) == 60);
  CHECK(all.activities[0].correlation == all.calls[0].correlation);
  CHECK(all.activities[1].correlation == all.calls[1].correlation);
  CHECK(all.calls[0].correlation != all.calls[1].correlation);
  CHECK(all.activities[2].correlation != 0);  // its call is not in the file
  CHECK(all.activities[2].correlation != all.calls[0].correlation);
  CHECK(all.activities[2].correlation != all.calls[1].correlation);
  CHECK(both->info().pid == 60);  // it had more work
  CHECK(has_warning(*both, "2 processes used a GPU (50, 60)"));
}

TEST_CASE("work that names no process belongs to the only one that calls name", "[nsys]") {
  const auto recording = export_with(name(1, "cudaLaunchKernel_v7000") +
                                     call("1,2,0", kTid, "9,1") + kernel("10, 20, 0, 9, NULL"));
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 1);
  CHECK(all.activities[0].correlation == all.calls[0].correlation);
}

TEST_CASE("one number for two GPUs of two processes is told apart", "[nsys]") {
  const std::string work = kernel("10, 20, 0, 1, " + kPid) + kernel("10, 20, 0, 1, " + kOtherPid);
  const std::string listed =
      "INSERT INTO TARGET_INFO_GPU VALUES (4, 'four', 1, 1, 0, 9, 0), (5, 'five', 1, 1, 1, 9, 0);";
  const auto unknown = export_with(work);
  CHECK(Everything(*unknown).activities[1].device == 0);
  CHECK(has_warning(*unknown, "processes 50, 60 each used a device 0"));

  const auto same = export_with(
      work + listed + "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 50), (4, 0, 60);");
  CHECK(Everything(*same).activities[0].device == 0);
  CHECK(Everything(*same).activities[1].device == 0);
  CHECK_FALSE(has_warning(*same, "each used a device"));

  const auto different = export_with(
      work + listed + "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 50), (5, 0, 60);");
  const Everything all(*different);
  std::map<std::uint32_t, int> devices;
  for (const auto& activity : all.activities) ++devices[activity.device];
  CHECK(devices == std::map<std::uint32_t, int>{{4, 1}, {5, 1}});
  CHECK(different->tables().devices().size() == 2);
  CHECK(has_warning(*different, "the machine's numbers"));
}

TEST_CASE("devices are numbered as CUDA does, and those without work are merely listed", "[nsys]") {
  const auto recording =
      export_with(kernel("10, 20, 0, 1, " + kPid) +
                  "INSERT INTO TARGET_INFO_GPU VALUES (0, 'far', 8589934592, 108, 3, 8, 0), "
                  "(3, 'near', 8589934592, 132, 0, 9, 0), (1, 'hidden', 1, 1, -1, 9, 0);");
  const auto& devices = recording->tables().devices();
  REQUIRE(devices.size() == 2);
  for (const model::Device& device : devices) {
    const bool is_near = device.ordinal == 0;
    CHECK(recording->tables().string(device.name) == (is_near ? "near" : "far"));
    CHECK(device.multiprocessors == (is_near ? 132 : 108));
    CHECK(device.merely_listed == !is_near);
    CHECK(device.memory_bytes == 8589934592);
  }
}

TEST_CASE("annotations are found by text and by id, and open ones end with the recording",
          "[nsys]") {
  const auto recording =
      export_with(name(1, "by id") + "INSERT INTO ANALYSIS_DETAILS VALUES (0, 500, 7000, 7500);" +
                  "INSERT INTO NVTX_EVENTS VALUES (10, 20, 59, 'by text', " + kTid +
                  ", NULL), (30, 40, 60, " + "NULL, " + kTid + ", 1), (50, NULL, 34, 'mark', " +
                  kTid + ", NULL), (60, NULL, 59, 'open', " + kTid +
                  ", NULL), (70, NULL, 75, 'a domain', " + kTid + ", NULL);");
  const Everything all(*recording);
  REQUIRE(all.markers.size() == 4);
  const auto text = [&](std::size_t i) { return recording->tables().string(all.markers[i].name); };
  CHECK(text(0) == "by text");
  CHECK(all.markers[0].kind == model::Marker::Kind::range);
  CHECK(text(1) == "by id");
  CHECK(all.markers[2].kind == model::Marker::Kind::instant);
  CHECK(all.markers[2].end_ns == 50);
  CHECK(text(3) == "open");
  CHECK(all.markers[3].end_ns == 500);
  CHECK(has_warning(*recording, "1 NVTX range was never closed"));
}

TEST_CASE("ranges around a call are its stack, without the number of the instance", "[nsys]") {
  const auto recording =
      export_with(name(1, "cudaLaunchKernel_v7000") + call("30,40,0", kTid, "1,1") +
                  call("30,40,0", kOtherTid, "2,1") +
                  "INSERT INTO NVTX_EVENTS VALUES (10, 90, 59, 'forward\\1', " + kTid +
                  ", NULL), (20, 80, 59, 'aten::add, seq = 5, op_id = 12', " + kTid +
                  ", NULL), (25, 70, 60, 'not nested', " + kTid + ", NULL);");
  const Everything all(*recording);
  REQUIRE(all.calls.size() == 2);
  const auto& first =
      recording->tables().threads()[all.calls[0].thread].pid == 50 ? all.calls[0] : all.calls[1];
  CHECK(test::stack_text(*recording, first) == std::vector<std::string>{"aten::add", "forward\\1"});
  CHECK(all.markers.size() == 3);
}

TEST_CASE("the profiler's own overhead is told from the driver's", "[nsys]") {
  const auto recording =
      export_with(name(1, "CUPTI: Buffer flush") + name(2, "Lazy Function Loading") +
                  "INSERT INTO PROFILER_OVERHEAD VALUES (1, 2, " + kTid + ", 1), (3, 4, " + kTid +
                  ", 2);" + "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (5, 6, " + kTid +
                  ", 2, 7), (7, 8, " + kTid + ", 1, 3);");
  const Everything all(*recording);
  REQUIRE(all.overheads.size() == 4);
  CHECK(all.overheads[0].is_profiler);
  CHECK_FALSE(all.overheads[1].is_profiler);
  CHECK_FALSE(all.overheads[2].is_profiler);
  CHECK(all.overheads[3].is_profiler);
}

TEST_CASE("facts about the session are taken over", "[nsys]") {
  const auto recording = export_with(
      kernel("10, 20, 0, 1, " + kPid) +
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.1.1'), "
      "('EXPORT_SCHEMA_VERSION', '3.17.1');"
      "INSERT INTO ANALYSIS_DETAILS VALUES (0, 500, 7000, 7500);"
      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1741793819042497997, '', '');"
      "INSERT INTO PROCESSES VALUES (" +
      kPid +
      ", 50, 'python3');"
      "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT); INSERT INTO META_DATA_CAPTURE "
      "VALUES ('PROCESS_0:ARGUMENT_10', 'k'), ('PROCESS_0:ARGUMENT_2', 'b'), "
      "('PROCESS_0:COMMAND', 'python'), ('PROCESS_0:ARGUMENT_x', 'no');");
  const model::RecordingInfo& info = recording->info();
  CHECK(info.producer == "Nsight Systems 2025.1.1");
  CHECK(info.format == "Nsight Systems SQLite, schema 3.17.1");
  CHECK(info.recording_start_ns == 0);
  CHECK(info.recording_end_ns == 500);
  CHECK(info.realtime_offset_ns == 1741793819042497997);
  CHECK(info.program == "python3");
  CHECK(info.command == std::vector<std::string>{"python", "b", "k"});
  CHECK(info.warnings.empty());
  CHECK(info.losses.total() == 0);
}

TEST_CASE("why there is no device work is told in Nsight Systems' own words", "[nsys]") {
  const std::string says =
      "INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 2, 'CUDA driver is newer\nthan this build'), "
      "(1, 1, 'CUDA injection initialized'), (1, 2, 'No NVTX events collected'), "
      "(1, 2, 'CUDA driver is newer\nthan this build');";
  const auto without = export_with(says + name(1, "cudaLaunchKernel") + call("1,2,0", kTid, "1,1"));
  REQUIRE(without->info().warnings.size() == 1);
  CHECK(without->info().warnings[0] == "Nsight Systems says: CUDA driver is newer than this build");
  CHECK(without->info().launch_calls == 1);
  CHECK(export_with(says + kernel("10, 20, 0, 1, " + kPid))->info().warnings.empty());
}

TEST_CASE("rows that cannot be are left out and counted", "[nsys]") {
  const auto recording =
      export_with(kernel("10, 20, 0, 1, " + kPid) + kernel("30, 20, 0, 2, " + kPid) +
                  kernel("0, 0, 0, 3, " + kPid) + kernel("NULL, 20, 0, 4, " + kPid) +
                  kernel("'soon', 20, 0, 5, " + kPid) + kernel("1.5, 20, 0, 6, " + kPid) +
                  kernel("10, 9223372036854775807, 0, 7, " + kPid) +
                  kernel("10, 20, NULL, 8, " + kPid) + kernel("10, 20, -1, 9, " + kPid));
  CHECK(Everything(*recording).activities.size() == 1);
  const auto lost = [&](model::LossReason reason) {
    return recording->info().losses.count[static_cast<std::size_t>(reason)];
  };
  CHECK(lost(model::LossReason::reversed_timestamp) == 1);
  CHECK(lost(model::LossReason::zero_timestamp) == 1);
  CHECK(lost(model::LossReason::outside_session) == 1);
  CHECK(lost(model::LossReason::unknown_record) == 5);
  CHECK(has_warning(*recording, "3 rows left out: no integer as start or end"));
  CHECK(has_warning(*recording, "2 rows left out: no device"));
}

TEST_CASE("columns that an export lacks are unknown, not an error", "[nsys]") {
  const test::DatabaseFolder folder;
  const auto opened = import::open_recording(folder.make(
      "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
      "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (deviceId INTEGER, end INTEGER, start INTEGER);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (begin INTEGER, end INTEGER, deviceId INTEGER);"
      "INSERT INTO TARGET_INFO_GPU VALUES (0, 'gpu');"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 20, 10);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (10, 20, 0);"));
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  const Everything all(*opened.value());
  REQUIRE(all.activities.size() == 1);
  CHECK(all.activities[0].end_ns == 20);
  CHECK(has_warning(*opened.value(),
                    "table CUPTI_ACTIVITY_KIND_MEMSET left out: it has no column \"start\""));
  CHECK(opened.value()->info().losses.total() == 1);
}

}  // namespace
}  // namespace gpuidle
