// SPDX-License-Identifier: Apache-2.0
//
// The door to SQLite: an untrusted database, opened so that nothing is ever written beside it, and
// its tables read row by row with columns asked for by name. Feeds the Nsight Systems importer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libgpuidle/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gpuidle::import {

/// True if the first bytes of a file are those of an SQLite 3 database.
bool is_sqlite(std::string_view first_bytes);

/// The row that a scan is at; gone when the callback returns. Columns count from 0 in the order in
/// which they were asked for; one that the table lacks is NULL in every row.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  /// The value if it is an integer; nothing for NULL, text, a real number or a blob.
  std::optional<std::int64_t> integer(int column) const;
  /// The value if it is text, cut at kMaxTextBytes; empty for everything else.
  std::string_view text(int column) const;
  static constexpr std::size_t kMaxTextBytes = 4096;  ///< names of kernels stay below 3000

 private:
  sqlite3_stmt* statement_;
};

/// Context: tool. Not thread-safe.
class SqliteFile {
 public:
  /// Opens for reading, as a file that nobody changes: no lock, no journal, no shared memory.
  /// Errors: those of read_file(); truncated (shorter than its header announces), corrupt.
  static base::Result<std::unique_ptr<SqliteFile>> open(const std::string& path);
  ~SqliteFile();

  const std::string& path() const { return path_; }
  /// Names of real tables; views and virtual tables run code of the file's and do not count.
  const std::map<std::string, std::set<std::string>, std::less<>>& tables() const {
    return tables_;
  }
  bool has(std::string_view table) const { return tables_.find(table) != tables_.end(); }
  bool has(std::string_view table, std::string_view column) const;

  /// Calls `on_row` for every row of `table`, in the order in which they lie in the file; none if
  /// there is no such table. Errors: corrupt, io_error; wrong_format if it is a view.
  base::Status scan(const char* table, const std::vector<const char*>& columns,
                    const std::function<void(const SqliteRow&)>& on_row) const;

 private:
  explicit SqliteFile(std::string path) : path_(std::move(path)) {}
  base::Status check_header();
  base::Status connect();
  base::Status list_tables();
  base::Status run(const std::string& sql, const std::string& where,
                   const std::function<void(const SqliteRow&)>& on_row) const;
  base::Status failure(int sqlite_code, const std::string& where) const;

  std::string path_;
  std::uint64_t size_bytes_ = 0;
  sqlite3* database_ = nullptr;
  std::map<std::string, std::set<std::string>, std::less<>> tables_;  // -> columns
  std::set<std::string, std::less<>> views_;
};

}  // namespace gpuidle::import
