// SPDX-License-Identifier: Apache-2.0
//
// What open_recording() makes of files of every kind: formats are told by content, and what is none
// gets one line that says what it is.
#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libgpuidle/import/gzip.h"
#include "libgpuidle/import/open_recording.h"

namespace gpuidle {
namespace {

using base::StatusCode;
using namespace std::string_literals;

constexpr const char* kTrace =
    R"json({"traceEvents": [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}]})json";

// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpuidle_import_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string gzip(const std::string& text) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  std::string packed(libdeflate_gzip_compress_bound(compressor, text.size()), '\0');
  packed.resize(
      libdeflate_gzip_compress(compressor, text.data(), text.size(), packed.data(), packed.size()));
  libdeflate_free_compressor(compressor);
  return packed;
}

std::size_t activities_of(const base::Result<std::unique_ptr<model::Recording>>& opened) {
  struct Counter : model::SliceVisitor {
    void on_slice(const model::Slice& slice) override { count += slice.activities.size(); }
    std::size_t count = 0;
  } counter;
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  REQUIRE(opened.value()->visit(counter).ok());
  return counter.count;
}

TEST_CASE("the name of a file does not matter, its content does", "[import]") {
  const Folder folder;
  CHECK(activities_of(import::open_recording(folder.write("a.gz", kTrace))) == 1);
  CHECK(activities_of(import::open_recording(folder.write("a.sqlite", gzip(kTrace)))) == 1);
  CHECK(activities_of(import::open_recording(folder.write("bom", "\xef\xbb\xbf"s + kTrace))) == 1);
}

TEST_CASE("what is no recording is named for what it is", "[import]") {
  const Folder folder;
  const struct {
    std::string content, named;
  } kCases[] = {
      {"", "empty file"},
      {" \n\t ", "blank file"},
      {gzip(""), "empty file in gzip"},
      {gzip("SQLite format 3\0 and so on"s), "an SQLite database in gzip"},
      {"PK\x03\x04"s + "zip", "a zip archive"},
      {"\x28\xb5\x2f\xfd"s + "zstd", "zstd-compressed"},
      {"\x7f"s + "ELF\x02\x01\x01", "a program or library"},
      {"\xff\xfe{\0"s, "UTF-16"},
      {"time,kernel\n1,k\n", "text that is no JSON"},
      {"\x01\x02\xf3\x04 binary"s,
       "binary data of an unknown kind (first bytes 01 02 f3 04 20 62 69 6e)"},
      {R"json({"schema": "1.0", "pid": 1, "nodes": []})json", "a PyTorch execution trace"},
      {R"json({"version": 3, "names": ["a"]})json",
       "a JSON object without traceEvents (it has version, names)"},
      {"{}", "an empty JSON object"},
      {"[]", "a JSON array without trace events"},
      {"[1, 2, 3]", "a JSON array without trace events"},
      {R"json({"traceEvents": 5})json", "a JSON object without traceEvents"},
  };
  for (const auto& one : kCases) {
    const std::string path = folder.write("file", one.content);
    const auto opened = import::open_recording(path);
    INFO(one.named << " / " << opened.status().message());
    CHECK(opened.status().code() == StatusCode::wrong_format);
    CHECK(opened.status().message().find(one.named) != std::string::npos);
    CHECK(opened.status().message().find(path) != std::string::npos);
    CHECK(opened.status().message().find('\n') == std::string::npos);
  }
}

TEST_CASE("a recording without rows is a recording", "[import]") {
  const Folder folder;
  const auto opened =
      import::open_recording(folder.write("file", R"json({"traceEvents": []})json"));
  CHECK(activities_of(opened) == 0);
  CHECK(opened.value()->info().launch_calls == 0);
}

TEST_CASE("missing files, folders and pipes are refused without waiting", "[import]") {
  const Folder folder;
  CHECK(import::open_recording(folder.path() + "/none").status().code() == StatusCode::not_found);
  CHECK(import::open_recording(folder.path()).status().message().find("a directory") !=
        std::string::npos);
  CHECK(import::open_recording("/dev/null").status().code() == StatusCode::wrong_format);
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(import::open_recording(pipe).status().message().find("a pipe") != std::string::npos);
  if (::geteuid() != 0) {  // root may read everything
    const std::string secret = folder.write("secret", kTrace);
    REQUIRE(::chmod(secret.c_str(), 0) == 0);
    CHECK(import::open_recording(secret).status().code() == StatusCode::permission_denied);
  }
}

TEST_CASE("all members of a gzip file are read, and padding behind them is not", "[gzip]") {
  const std::string text = kTrace;
  const std::string packed = gzip(text.substr(0, 30)) + gzip("") + gzip(text.substr(30));
  for (const std::string& bytes : {packed, packed + std::string(1000, '\0')}) {
    const auto unpacked = import::gunzip(bytes, "x");
    REQUIRE(unpacked.ok());
    CHECK(unpacked.value().view() == text);
  }
}

TEST_CASE("a gzip file whose size field lies is unpacked all the same", "[gzip]") {
  // A small last member announces a size that says nothing about the members before it.
  const std::string text(3'000'000, 'x');
  const auto unpacked = import::gunzip(gzip(text) + gzip("y"), "x");
  REQUIRE(unpacked.ok());
  CHECK(unpacked.value().view() == text + "y");
}

TEST_CASE("damaged or cut gzip data are an error that says where", "[gzip]") {
  const std::string packed = gzip(kTrace);
  for (std::size_t length = 3; length < packed.size(); ++length) {
    const auto unpacked = import::gunzip(packed.substr(0, length), "x.gz");
    REQUIRE(unpacked.status().code() == StatusCode::corrupt);
    CHECK(unpacked.status().message().find("at byte 0 of " + std::to_string(length)) !=
          std::string::npos);
  }
  CHECK(import::gunzip(packed + "trailing", "x").status().code() == StatusCode::corrupt);
}

TEST_CASE("a gzip file that expands beyond what recordings do is refused", "[gzip]") {
  import::GunzipLimits limits;
  limits.free_bytes = 1 << 20;
  const std::string bomb = gzip(std::string(4 << 20, ' '));
  const auto unpacked = import::gunzip(bomb, "x.gz", limits);
  CHECK(unpacked.status().code() == StatusCode::corrupt);
  CHECK(unpacked.status().message().find("expand to more than") != std::string::npos);
  limits.max_ratio = 5000;
  CHECK(import::gunzip(bomb, "x.gz", limits).ok());
}

}  // namespace
}  // namespace gpuidle
