// SPDX-License-Identifier: Apache-2.0
//
// What the tests of Nsight Systems exports share: a database from SQL statements in a folder that
// goes with the test, and the tables of an export with the columns that most of them have.
#pragma once

#include <sqlite3.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "libgpuidle/import/open_recording.h"
#include "tests/unit/kineto_reading.h"

namespace gpuidle::test {

/// Tables as schema 3.17 has them, without rows.
inline constexpr const char* kExportTables = R"sql(
  CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
  CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
  CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER NOT NULL, startTime INTEGER,
    stopTime INTEGER);
  CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
  CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER,
    cuDevice INTEGER, computeMajor INTEGER, computeMinor INTEGER);
  CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER);
  CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
  CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
  CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER, shortName INTEGER, mangledName INTEGER, registersPerThread INTEGER,
    gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,
    staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER,
    copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER,
    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER,
    memKind INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER,
    correlationId INTEGER, globalPid INTEGER, syncType INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
  CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
    globalTid INTEGER, textId INTEGER);
  CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER,
    nameId INTEGER, overheadType INTEGER);
)sql";

/// globalTid of a thread, as SQL has to spell it; thread 0 makes it a globalPid.
inline std::string global_id(std::int64_t pid, std::int64_t tid = 0) {
  constexpr std::int64_t kMachine = std::int64_t{1} << 48;
  return std::to_string(kMachine + (pid << 24) + tid);
}

/// A folder that goes with the test.
class DatabaseFolder {
 public:
  DatabaseFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpuidle_nsys_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~DatabaseFolder() { std::filesystem::remove_all(path_); }
  DatabaseFolder(const DatabaseFolder&) = delete;
  DatabaseFolder& operator=(const DatabaseFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// A database made by `sql`.
  std::string make(const std::string& sql, const std::string& name = "export.sqlite") const {
    std::filesystem::remove(file(name));
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(file(name).c_str(), &database) == SQLITE_OK);
    char* error = nullptr;
    const int code = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error);
    INFO((error != nullptr ? error : "") << " in " << sql);
    REQUIRE(code == SQLITE_OK);
    sqlite3_close(database);
    return file(name);
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }

 private:
  std::string path_;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// The recording of an export made of the usual tables and `rows`, which must open.
inline std::unique_ptr<model::Recording> export_with(const std::string& rows) {
  const DatabaseFolder folder;
  auto opened = import::open_recording(folder.make(kExportTables + rows));
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  CHECK(opened.value()->tables().is_consistent());
  return opened.take();
}

}  // namespace gpuidle::test
