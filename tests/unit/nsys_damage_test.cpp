// SPDX-License-Identifier: Apache-2.0
//
// Databases that are no export, or no longer: truncated at many sizes, bytes flipped, views in the
// place of tables. One line each, never a crash, and nothing is ever written beside the file.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/unit/nsys_database.h"

namespace gpuidle {
namespace {

using base::StatusCode;
using test::bytes_of;
using test::DatabaseFolder;
using test::Everything;

constexpr const char* kFiles[] = {"schema_2.9_a100_saxpy.sqlite", "schema_3.24_rtx3080.sqlite"};

std::string golden(const std::string& name) { return std::string(GPUIDLE_GOLDEN) + "/" + name; }

// A failure is one line that names the file; a success is consistent.
void check_outcome(const base::Result<std::unique_ptr<model::Recording>>& opened,
                   const std::string& path) {
  if (opened.ok()) {
    REQUIRE(opened.value()->tables().is_consistent());
    const Everything all(*opened.value());
    for (const auto& a : all.activities) REQUIRE(a.end_ns >= a.start_ns);
    return;
  }
  const std::string& message = opened.status().message();
  INFO(message);
  REQUIRE(message.find(path) != std::string::npos);
  REQUIRE(message.find('\n') == std::string::npos);
  const StatusCode code = opened.status().code();
  REQUIRE((code == StatusCode::truncated || code == StatusCode::corrupt ||
           code == StatusCode::wrong_format));
}

TEST_CASE("both ends of the range of schemas are read", "[nsys]") {
  const auto old = import::open_recording(golden(kFiles[0]));
  REQUIRE(old.ok());
  const Everything of_old(*old.value());
  CHECK(of_old.activities.size() == 20);
  CHECK(of_old.calls.size() == 56);  // 94 rows, 38 of them backtraces of others
  CHECK(of_old.markers.size() == 22);
  CHECK(old.value()->info().format == "Nsight Systems SQLite, schema 2.9.1");
  CHECK(old.value()->info().losses.total() == 0);
  const auto recent = import::open_recording(golden(kFiles[1]));
  REQUIRE(recent.ok());
  CHECK(Everything(*recent.value()).activities.size() == 3);
  CHECK(recent.value()->info().format == "Nsight Systems SQLite, schema 3.24.14");
}

TEST_CASE("a database that is cut off says so at any size", "[nsys]") {
  const DatabaseFolder folder;
  for (const char* name : kFiles) {
    const std::string whole = bytes_of(golden(name));
    REQUIRE(whole.size() > 10000);
    for (std::size_t size = 16; size < whole.size(); size += size < 200 ? 1 : 997) {
      const std::string path = folder.write("cut", whole.substr(0, size));
      const auto opened = import::open_recording(path);
      INFO(size << ": " << opened.status().message());
      REQUIRE(opened.status().code() == StatusCode::truncated);
      check_outcome(opened, path);
    }
  }
}

TEST_CASE("flipped bytes of a database never crash the reader", "[nsys]") {
  const DatabaseFolder folder;
  std::mt19937 random(20240602);
  std::size_t opened_count = 0, failed_count = 0;
  for (const char* name : kFiles) {
    const std::string whole = bytes_of(golden(name));
    for (int round = 0; round < 400; ++round) {
      std::string bytes = whole;
      // Every fourth time in the first pages, where the list of tables is.
      const std::size_t reach = round % 4 == 0 ? 4096 : bytes.size();
      for (int flips = 1 + round % 16; flips > 0; --flips) {
        bytes[16 + random() % (reach - 16)] = static_cast<char>(random() % 256);
      }
      const std::string path = folder.write("flipped", bytes);
      const auto opened = import::open_recording(path);
      check_outcome(opened, path);
      (opened.ok() ? opened_count : failed_count) += 1;
    }
  }
  CHECK(opened_count > 0);
  CHECK(failed_count > 0);
}

TEST_CASE("pages that are overwritten never crash the reader", "[nsys]") {
  const DatabaseFolder folder;
  constexpr std::size_t kPageBytes = 1024;
  const std::string whole = bytes_of(golden(kFiles[1]));
  for (std::size_t page = 0; page < whole.size() / kPageBytes; ++page) {
    for (const std::size_t other : {std::size_t{1}, page / 2, page + 1}) {
      std::string bytes = whole;
      const std::string copied = whole.substr((other * kPageBytes) % whole.size(), kPageBytes);
      std::copy(
          copied.begin() + (page == 0 ? 100 : 0), copied.end(),
          bytes.begin() + static_cast<std::ptrdiff_t>(page * kPageBytes) + (page == 0 ? 100 : 0));
      const std::string path = folder.write("pages", bytes);
      check_outcome(import::open_recording(path), path);
    }
  }
}

TEST_CASE("a tree of pages that contains itself ends", "[nsys]") {
  const DatabaseFolder folder;
  // Enough rows that the table's root page points to leaves; then every pointer is made the same.
  std::string path = folder.make(
      std::string("PRAGMA page_size=512;") + test::kExportTables +
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) "
      "INSERT INTO StringIds SELECT i, 'a string that fills the page a little ' || i FROM n;");
  std::string bytes = bytes_of(path);
  constexpr std::size_t kPageBytes = 512;
  constexpr char kInteriorTable = 5;
  std::size_t changed = 0;
  for (std::size_t page = 1; page * kPageBytes < bytes.size(); ++page) {
    const std::size_t at = page * kPageBytes;
    if (bytes[at] != kInteriorTable) continue;
    const std::size_t cells = static_cast<unsigned char>(bytes[at + 4]);
    const auto cell_at = [&](std::size_t cell) {
      const std::size_t slot = at + 12 + 2 * cell;
      return at + (static_cast<unsigned char>(bytes[slot]) << 8) +
             static_cast<unsigned char>(bytes[slot + 1]);
    };
    for (std::size_t cell = 1; cell < cells; ++cell) {
      bytes.replace(cell_at(cell), 4, bytes, cell_at(0), 4);
      ++changed;
    }
  }
  REQUIRE(changed > 3);
  path = folder.write("loop", bytes);
  check_outcome(import::open_recording(path), path);
}

TEST_CASE("a view in the place of a table is refused", "[nsys]") {
  const DatabaseFolder folder;
  const std::string path = folder.make(
      std::string(test::kExportTables) +
      "DROP TABLE NVTX_EVENTS; CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(i) AS (SELECT 1 UNION "
      "ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end, 59 AS eventType FROM n;");
  const auto opened = import::open_recording(path);
  CHECK(opened.status().code() == StatusCode::wrong_format);
  CHECK(opened.status().message().find("NVTX_EVENTS is a view") != std::string::npos);
}

TEST_CASE("columns that compute something are not asked", "[nsys]") {
  const DatabaseFolder folder;
  const auto opened = import::open_recording(
      folder.make(std::string(test::kExportTables) +
                  "DROP TABLE NVTX_EVENTS; CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, "
                  "eventType INTEGER, text TEXT AS (hex(zeroblob(start))));"
                  "INSERT INTO NVTX_EVENTS VALUES (100000000, 100000001, 59);"));
  REQUIRE(opened.ok());
  const Everything all(*opened.value());
  REQUIRE(all.markers.size() == 1);
  CHECK(all.markers[0].name == 0);
}

TEST_CASE("databases that are no export are named for what they are", "[nsys]") {
  const DatabaseFolder folder;
  const struct {
    const char *sql, *named;
  } kCases[] = {
      {"CREATE TABLE a (x); CREATE TABLE b (y);", "it has tables a, b"},
      {"PRAGMA user_version=1;", "it has no tables"},
      {"CREATE TABLE StringTable (_id_ INTEGER, value TEXT); CREATE TABLE "
       "CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER);",
       "nvprof"},
      {"CREATE TABLE StringIds (id INTEGER, value TEXT);", "it has tables StringIds"},
  };
  for (const auto& one : kCases) {
    const std::string path = folder.make(one.sql);
    const auto opened = import::open_recording(path);
    INFO(opened.status().message());
    CHECK(opened.status().code() == StatusCode::wrong_format);
    CHECK(opened.status().message().find(one.named) != std::string::npos);
    CHECK(opened.status().message().find("an SQLite database") != std::string::npos);
  }
}

TEST_CASE("reading leaves the file and its folder as they were", "[nsys]") {
  const DatabaseFolder folder;
  const std::string whole = bytes_of(golden(kFiles[1]));
  // A name that means something in a URI, and a database that asks for a write-ahead log.
  const std::string path = folder.write("100% of? a#b &mode=rwc.sqlite", whole);
  REQUIRE(import::open_recording(path).ok());
  std::string logged = whole;
  logged[18] = logged[19] = 2;
  const std::string logged_path = folder.write("logged", logged);
  REQUIRE(import::open_recording(logged_path).ok());
  CHECK(bytes_of(path) == whole);
  CHECK(bytes_of(logged_path) == logged);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    static_cast<void>(entry);
    ++files;
  }
  CHECK(files == 2);
  folder.write("logged-wal", "pages of another program");
  const auto opened = import::open_recording(logged_path);
  REQUIRE(opened.ok());
  REQUIRE_FALSE(opened.value()->info().warnings.empty());
  CHECK(opened.value()->info().warnings.back().find("logged-wal were not read") !=
        std::string::npos);
}

}  // namespace
}  // namespace gpuidle
