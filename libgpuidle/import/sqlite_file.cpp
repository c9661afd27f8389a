// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/sqlite_file.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "libgpuidle/import/padded_text.h"

namespace gpuidle::import {
namespace {

using base::Result;
using base::Status;
using base::StatusCode;
using namespace std::string_view_literals;

constexpr std::string_view kMagic = "SQLite format 3\0"sv;
constexpr std::size_t kHeaderBytes = 100;

// A row costs its cell pointer, two lengths and a header; where a scan yields more rows than the
// file has room for, pages are in the tree several times and it might never end.
constexpr std::uint64_t kLeastRowBytes = 4;

std::uint32_t big_endian(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

// file: URI of an absolute path. Without an empty authority, a path that begins with two slashes
// would be read as the name of a host.
std::string uri_of(const std::string& path) {
  std::error_code ignored;  // absolute() fails only without a current folder; then SQLite reports
  const std::string absolute = std::filesystem::absolute(path, ignored).string();
  std::string uri = "file://";
  for (const char c : absolute.empty() ? path : absolute) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '-' || c == '_';
    if (is_plain) {
      uri += c;
    } else {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return uri + "?mode=ro&immutable=1";
}

std::string sql_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

}  // namespace

bool is_sqlite(std::string_view first_bytes) {
  return first_bytes.substr(0, kMagic.size()) == kMagic;
}

std::optional<std::int64_t> SqliteRow::integer(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_, column);
}

std::string_view SqliteRow::text(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_TEXT) return {};
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (bytes == nullptr) return {};
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return {bytes, std::min(size, kMaxTextBytes)};
}

Result<std::unique_ptr<SqliteFile>> SqliteFile::open(const std::string& path) {
  std::unique_ptr<SqliteFile> file(new SqliteFile(path));
  Status status = file->check_header();
  if (status.ok()) status = file->connect();
  if (status.ok()) status = file->list_tables();
  if (!status.ok()) return status;
  return file;
}

SqliteFile::~SqliteFile() { sqlite3_close(database_); }

bool SqliteFile::has(std::string_view table, std::string_view column) const {
  const auto found = tables_.find(table);
  return found != tables_.end() && found->second.count(std::string(column)) != 0;
}

// SQLite fills what is missing with zeros and finds contradictions later, or never; the header
// knows better.
Status SqliteFile::check_header() {
  const Result<PaddedText> head = read_file(path_, kHeaderBytes);
  if (!head.ok()) return head.status();
  const std::string_view header = head.value().view();
  if (header.size() < kHeaderBytes) {
    return {StatusCode::truncated,
            fmt::format("cannot read {}: an SQLite database that ends inside its header (expected "
                        "{} bytes, found {})",
                        path_, kHeaderBytes, header.size())};
  }
  std::error_code error;
  size_bytes_ = std::filesystem::file_size(path_, error);
  if (error) {
    return {StatusCode::io_error, fmt::format("cannot read {}: {}", path_, error.message())};
  }
  std::uint64_t page_bytes = big_endian(header, 16, 2);
  if (page_bytes == 1) page_bytes = 65536;
  if (page_bytes < 512 || (page_bytes & (page_bytes - 1)) != 0) {
    return {StatusCode::corrupt,
            fmt::format("cannot read {}: a damaged SQLite database (pages of {} bytes, expected a "
                        "power of two from 512 to 65536)",
                        path_, page_bytes)};
  }
  // Offset 28 counts pages and holds only if offsets 24 and 92 agree.
  const std::uint64_t pages = big_endian(header, 28, 4);
  const bool is_counted = big_endian(header, 24, 4) == big_endian(header, 92, 4) && pages != 0;
  if (is_counted && size_bytes_ < pages * page_bytes) {
    return {StatusCode::truncated,
            fmt::format("cannot read {}: the SQLite database is cut off (its header announces {} "
                        "bytes, found {}); copy or export it again",
                        path_, pages * page_bytes, size_bytes_)};
  }
  return {};
}

Status SqliteFile::connect() {
  const int opened =
      sqlite3_open_v2(uri_of(path_).c_str(), &database_,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  if (opened != SQLITE_OK) return failure(opened, "opening it");
  for (const auto& [option, value] :
       {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1}, std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        std::pair{SQLITE_DBCONFIG_ENABLE_VIEW, 0}, std::pair{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}}) {
    const int set = sqlite3_db_config(database_, option, value, nullptr);
    if (set != SQLITE_OK) return failure(set, "opening it");
  }
  sqlite3_limit(database_, SQLITE_LIMIT_ATTACHED, 0);
  return run("PRAGMA cell_size_check=ON", "its settings", [](const SqliteRow&) {});
}

Status SqliteFile::list_tables() {
  std::vector<std::string> names;
  Status status = run(
      "SELECT name, type, sql FROM sqlite_master", "its list of tables", [&](const SqliteRow& row) {
        const std::string_view type = row.text(1), sql = row.text(2);
        const bool is_plain = type == "table" && sql.substr(0, 12) == "CREATE TABLE";
        if (is_plain) {
          names.emplace_back(row.text(0));
        } else if (type == "view" || type == "table") {
          views_.emplace(row.text(0));
        }
      });
  for (std::size_t i = 0; status.ok() && i < names.size(); ++i) {
    std::set<std::string>& columns = tables_[names[i]];
    // table_info() leaves out generated columns, which may compute for ever.
    status = run("PRAGMA table_info(" + sql_name(names[i]) + ")", "table " + names[i],
                 [&](const SqliteRow& row) { columns.emplace(row.text(1)); });
  }
  return status;
}

Status SqliteFile::scan(const char* table, const std::vector<const char*>& columns,
                        const std::function<void(const SqliteRow&)>& on_row) const {
  if (views_.count(std::string(table)) != 0) {
    return {StatusCode::wrong_format,
            fmt::format("cannot read {}: {} is a view or a virtual table, expected a table as "
                        "'nsys export' writes it",
                        path_, table)};
  }
  const auto found = tables_.find(std::string_view(table));
  if (found == tables_.end()) return {};
  std::string sql = "SELECT ";
  for (const char* column : columns) {
    if (column != columns.front()) sql += ", ";
    sql += found->second.count(column) != 0 ? sql_name(column) : "NULL";
  }
  // An index of a damaged file may contradict its table.
  return run(sql + " FROM " + sql_name(table) + " NOT INDEXED", std::string("table ") + table,
             on_row);
}

Status SqliteFile::run(const std::string& sql, const std::string& where,
                       const std::function<void(const SqliteRow&)>& on_row) const {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(database_, sql.c_str(), static_cast<int>(sql.size()) + 1,
                                &statement, nullptr);
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(statement, sqlite3_finalize);
  if (code != SQLITE_OK) return failure(code, where);
  const SqliteRow row(statement);
  std::uint64_t rows = 0;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    if (++rows > size_bytes_ / kLeastRowBytes) {
      return {StatusCode::corrupt,
              fmt::format("cannot read {}: a damaged SQLite database ({} has more rows than the "
                          "file's {} bytes have room for)",
                          path_, where, size_bytes_)};
    }
    on_row(row);
  }
  if (code != SQLITE_DONE) return failure(code, where);
  return {};
}

Status SqliteFile::failure(int sqlite_code, const std::string& where) const {
  const int primary = sqlite_code & 0xff;
  const char* reason = database_ != nullptr ? sqlite3_errmsg(database_) : "out of memory";
  // What SQLite quotes may come from the file.
  std::string one_line = reason;
  std::replace(one_line.begin(), one_line.end(), '\n', ' ');
  constexpr std::size_t kShownBytes = 200;
  one_line.resize(std::min(one_line.size(), kShownBytes));
  if (primary == SQLITE_NOMEM || primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) {
    return {StatusCode::io_error, fmt::format("cannot read {}: {} ({})", path_, one_line, where)};
  }
  return {StatusCode::corrupt,
          fmt::format("cannot read {}: a damaged SQLite database ({}: {}); copy or export it again",
                      path_, where, one_line)};
}

}  // namespace gpuidle::import
