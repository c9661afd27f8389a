// SPDX-License-Identifier: Apache-2.0
//
// Files that are cut off, damaged, made by later versions or made to hurt: each opens with what is
// whole in it, or fails with one line.
#include <sys/mman.h>
#include <sys/stat.h>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>

#include "libgpuidle/trace/crc32c.h"
#include "libgpuidle/trace/trace_file_facts.h"
#include "libgpuidle/trace/trace_format.h"
#include "tests/unit/trace_fixture.h"
#include "trace_generated.h"

using namespace gpuidle;
using namespace gpuidle::trace;
using namespace gpuidle::trace::test;
namespace schema = gpuidle::trace::schema;

namespace {

struct Chunk {
  ChunkHeader header;
  Bytes payload;
  std::size_t offset = 0;
};

// A trace in pieces, to be put together again with valid checksums.
struct Pieces {
  Bytes head;
  std::vector<Chunk> chunks;

  explicit Pieces(const Bytes& file) : head(file.begin(), file.begin() + kFileHeaderBytes) {
    for (std::size_t at = kFileHeaderBytes; at + kChunkHeaderBytes <= file.size();) {
      Chunk chunk;
      chunk.offset = at;
      if (!load_chunk_header(file.data() + at, &chunk.header)) break;  // the trailer
      at += kChunkHeaderBytes;
      chunk.payload.assign(
          file.begin() + static_cast<std::ptrdiff_t>(at),
          file.begin() + static_cast<std::ptrdiff_t>(at) + chunk.header.payload_bytes);
      at += chunk.header.payload_bytes;
      chunks.push_back(chunk);
    }
  }

  std::size_t find(ChunkKind kind) const {
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i].header.kind == kind) return i;
    }
    FAIL("no such chunk");
    return 0;
  }

  // Without the trailer, so that readers walk the chunks.
  Bytes join() const {
    Bytes file = head;
    for (const Chunk& chunk : chunks) {
      ChunkHeader header = chunk.header;
      header.payload_crc = crc32c(chunk.payload.data(), chunk.payload.size());
      const std::size_t at = file.size();
      file.resize(at + kChunkHeaderBytes);
      store_chunk_header(header, file.data() + at);
      file.insert(file.end(), chunk.payload.begin(), chunk.payload.end());
    }
    return file;
  }
};

// What a reader made of a file; the checks that hold for any bytes are made on the way.
struct Outcome {
  base::Status opened;
  base::Status visited;
  model::RecordingInfo info;
  std::size_t strings = 0;
  model::Slice records;

  std::size_t activity_count() const { return records.activities.size(); }
};

bool is_one_line(const base::Status& status) {
  return status.ok() ||
         (!status.message().empty() && status.message().find('\n') == std::string::npos &&
          status.message().size() < 600);
}

Outcome read(const std::string& path) {
  Outcome outcome;
  auto recording = open_trace(path);
  outcome.opened = recording.status();
  if (recording.ok()) {
    Collector collector;
    outcome.visited = recording.value()->visit(collector);
    outcome.info = recording.value()->info();
    outcome.strings = recording.value()->tables().strings().size();
    outcome.records = std::move(collector.all);
    // Plain conditions: a hundred thousand assertions take longer than what they check.
    if (!collector.promises_kept()) FAIL("a slice broke its promise");
    if (!recording.value()->tables().is_consistent()) FAIL("an id without its row");
  }
  if (!is_one_line(outcome.opened) || !is_one_line(outcome.visited)) {
    FAIL("not one line: " << outcome.opened.message() << outcome.visited.message());
  }
  return outcome;
}

// A file in memory with a path, for tests that try thousands of contents.
class File {
 public:
  File() : fd_(memfd_create("trace", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    REQUIRE(fd_ >= 0);
  }
  ~File() { close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void hold(const Bytes& bytes) {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (ftruncate(fd_, size) != 0 || pwrite(fd_, bytes.data(), bytes.size(), 0) != size) {
      FAIL("cannot fill a file in memory");
    }
  }
  Outcome read_as(const Bytes& bytes) {
    hold(bytes);
    return read(path_);
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// A small trace of three writes; `chunk_records` receives the activities of each.
Bytes small_trace(bool compress, std::vector<model::Slice>* slices = nullptr,
                  bool with_footer = true) {
  ScratchFolder folder;
  const std::string path = folder.file("small.gpuidle");
  RandomRecording random(11);
  WriterOptions options;
  options.compress = compress;
  auto writer = TraceWriter::create(path, random.info(), options);
  REQUIRE(writer.ok());
  for (int i = 0; i < 3; ++i) {
    random.grow_tables(2);
    model::Slice slice = random.slice(i * 1'000'000'000'000, 1'000'000, 4);
    model::Losses losses;
    losses.count[1] = static_cast<std::uint64_t>(i);
    REQUIRE(writer.value()->write(random.tables, slice, losses).ok());
    if (slices != nullptr) slices->push_back(slice);
  }
  if (with_footer) REQUIRE(writer.value()->finish(random.info()).ok());
  return read_bytes(path);
}

}  // namespace

TEST_CASE("a file cut off at any byte gives what was whole before, or one line", "[trace]") {
  const bool compress = GENERATE(true, false);
  std::vector<model::Slice> slices;
  const Bytes whole = small_trace(compress, &slices);
  const Pieces pieces(whole);
  File file;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size, whole.size());
    const Outcome outcome =
        file.read_as({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    // The whole chunks below `size` must be delivered, all of them.
    std::size_t expected_activities = 0, expected_calls = 0;
    bool has_info = false, has_footer = false;
    for (const Chunk& chunk : pieces.chunks) {
      if (chunk.offset + kChunkHeaderBytes + chunk.payload.size() > size) break;
      const ChunkHeader& h = chunk.header;
      has_info |= h.kind == ChunkKind::info;
      has_footer |= h.kind == ChunkKind::footer;
      if (h.kind == ChunkKind::activities) expected_activities += h.record_count;
      if (h.kind == ChunkKind::calls) expected_calls += h.record_count;
    }
    if (!has_info) {
      REQUIRE(outcome.opened.code() == base::StatusCode::truncated);
      continue;
    }
    REQUIRE(outcome.opened.ok());
    REQUIRE(outcome.visited.ok());
    REQUIRE(outcome.info.end == (has_footer ? model::End::clean : model::End::abrupt));
    REQUIRE_FALSE(outcome.info.warnings.empty());
    REQUIRE(outcome.activity_count() == expected_activities);
    REQUIRE(outcome.records.calls.size() == expected_calls);
  }
  const Outcome outcome = file.read_as(whole);
  CHECK(outcome.info.warnings.empty());
  CHECK(outcome.activity_count() == 12);
}

TEST_CASE("no flipped bit goes unnoticed or does harm", "[trace]") {
  const Bytes whole = small_trace(GENERATE(true, false));
  File file;
  Bytes bytes = whole;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] = static_cast<std::uint8_t>(whole[at] ^ (1u << bit));
      const Outcome outcome = file.read_as(bytes);
      // Only the trailer can be damaged without a loss: then the chunks are walked, with a warning.
      if (outcome.opened.ok() && outcome.visited.ok() && outcome.info.warnings.empty()) {
        FAIL("bit " << bit << " of byte " << at << " went unnoticed");
      }
    }
    bytes[at] = whole[at];
  }
}

TEST_CASE("damaged payloads with valid checksums are refused or read, never followed", "[trace]") {
  const Pieces whole(small_trace(false));
  File file;
  std::size_t refused = 0, accepted = 0;
  for (std::size_t chunk = 0; chunk < whole.chunks.size(); ++chunk) {
    for (std::size_t at = 0; at < whole.chunks[chunk].payload.size(); ++at) {
      for (const int change : {0x01, 0xff}) {
        Pieces damaged = whole;
        damaged.chunks[chunk].payload[at] =
            static_cast<std::uint8_t>(damaged.chunks[chunk].payload[at] ^ change);
        const Outcome outcome = file.read_as(damaged.join());
        outcome.opened.ok() && outcome.visited.ok() ? ++accepted : ++refused;
      }
    }
  }
  // Text, addresses and the like cannot be told from what was written; structure can.
  CHECK(refused > 1000);
  CHECK(accepted > 1000);
}

TEST_CASE("damage in the middle is told with its place, and what comes before is delivered",
          "[trace]") {
  std::vector<model::Slice> slices;
  const bool with_footer = GENERATE(true, false);
  Bytes bytes = small_trace(true, &slices, with_footer);
  const Pieces pieces(bytes);
  std::size_t second = pieces.find(ChunkKind::activities) + 1;
  while (pieces.chunks[second].header.kind != ChunkKind::activities) ++second;
  bytes[pieces.chunks[second].offset + kChunkHeaderBytes + 5] ^= 0x10;
  File file;
  const Outcome outcome = file.read_as(bytes);
  REQUIRE(outcome.opened.ok());
  REQUIRE(outcome.visited.code() == base::StatusCode::corrupt);
  const std::string start = "cannot read " + file.path() + ": chunk " + std::to_string(second) +
                            " (activities) at offset " +
                            std::to_string(pieces.chunks[second].offset) +
                            ": payload checksum is 0x";
  CHECK(outcome.visited.message().substr(0, start.size()) == start);
  CHECK(outcome.activity_count() == 4);
}

TEST_CASE("a damaged chunk header ends what can be read", "[trace]") {
  Bytes bytes = small_trace(true, nullptr, false);
  const Pieces pieces(bytes);
  const std::size_t calls = pieces.find(ChunkKind::calls);
  bytes[pieces.chunks[calls].offset + 9] ^= 0x40;
  File file;
  const Outcome outcome = file.read_as(bytes);
  REQUIRE(outcome.opened.ok());
  CHECK(outcome.visited.code() == base::StatusCode::corrupt);
  CHECK(outcome.visited.message() == "cannot read " + file.path() + ": chunk " +
                                         std::to_string(calls) + " at offset " +
                                         std::to_string(pieces.chunks[calls].offset) +
                                         ": no valid chunk header (mark or checksum are wrong)");
  CHECK(outcome.records.empty());
  CHECK(outcome.info.warnings.size() == 1);
}

TEST_CASE("zeros that a power failure left at the end are a torn tail", "[trace]") {
  Bytes bytes = small_trace(true, nullptr, false);
  bytes.resize(bytes.size() + 5000);
  const Outcome outcome = File().read_as(bytes);
  REQUIRE(outcome.opened.ok());
  CHECK(outcome.visited.ok());
  CHECK(outcome.info.end == model::End::abrupt);
  CHECK(outcome.info.warnings[0] == "the file ends in 5000 zero bytes");
  CHECK(outcome.activity_count() == 12);
}

TEST_CASE("a newer major version is refused with both versions", "[trace]") {
  Bytes bytes = small_trace(true);
  FileHeader header = load_file_header(bytes.data());
  header.major = 2;
  store_file_header(header, bytes.data());
  File file;
  const Outcome outcome = file.read_as(bytes);
  CHECK(outcome.opened.code() == base::StatusCode::unsupported_version);
  CHECK(outcome.opened.message().find("trace format 2.1 is newer than 1.1") != std::string::npos);
}

TEST_CASE("a newer minor version is read, with a longer header and chunks of unknown kinds",
          "[trace]") {
  Pieces pieces(small_trace(true));
  FileHeader header = load_file_header(pieces.head.data());
  header.minor = 9;
  header.features = 0xf;  // all of them ones that may be ignored
  header.header_bytes = kFileHeaderBytes + 16;
  pieces.head.resize(header.header_bytes);
  store_file_header(header, pieces.head.data());
  const std::size_t crc_at = pieces.head.size() - 4;
  const std::uint32_t crc = crc32c(pieces.head.data(), crc_at);
  for (std::size_t i = 0; i < 4; ++i) {
    pieces.head[crc_at + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  }
  Chunk unknown;
  unknown.header.kind = static_cast<ChunkKind>(999);
  unknown.payload = {1, 2, 3, 4, 5};
  unknown.header.payload_bytes = unknown.header.uncompressed_bytes = 5;
  pieces.chunks.insert(pieces.chunks.begin() + 2, unknown);
  File file;
  const Outcome outcome = file.read_as(pieces.join());
  INFO(outcome.opened.message());
  REQUIRE(outcome.opened.ok());
  CHECK(outcome.visited.ok());
  CHECK(outcome.info.format == "gpuidle 1.9");
  CHECK(outcome.activity_count() == 12);
  const auto facts = read_file_facts(file.path());
  REQUIRE(facts.ok());
  CHECK(facts.value().kinds[0].kind == "unknown");
}

TEST_CASE("features that must be known and are not are refused", "[trace]") {
  Bytes bytes = small_trace(true);
  FileHeader header = load_file_header(bytes.data());
  header.features = std::uint64_t{1} << 40;
  store_file_header(header, bytes.data());
  const Outcome outcome = File().read_as(bytes);
  CHECK(outcome.opened.code() == base::StatusCode::unsupported_version);
  CHECK(outcome.opened.message().find("0x10000000000") != std::string::npos);
}

TEST_CASE("columns of later versions are skipped", "[trace]") {
  // A span chunk with one more field than this schema knows.
  flatbuffers::FlatBufferBuilder builder;
  const std::uint8_t byte = 0;
  const auto zeros = builder.CreateVector(&byte, 1);
  const auto start = schema::CreateColumn(builder, schema::Packing::planes,
                                          schema::Transform::delta, 1, 50, zeros);
  const auto later = schema::CreateColumn(builder, schema::Packing::unknown);
  const auto table = builder.StartTable();
  builder.AddOffset(schema::Spans::VT_START, start);
  builder.AddOffset(schema::Spans::VT_CORRELATION + 2, later);
  builder.FinishSizePrefixed(flatbuffers::Offset<schema::Spans>(builder.EndTable(table)));
  Pieces pieces(small_trace(true));
  Chunk chunk;
  chunk.header.kind = ChunkKind::gaps;
  chunk.header.record_count = 1;
  chunk.header.min_start_ns = chunk.header.max_end_ns = 50;
  chunk.payload.assign(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  chunk.header.payload_bytes = chunk.header.uncompressed_bytes = builder.GetSize();
  pieces.chunks.insert(pieces.chunks.begin() + 1, chunk);
  const Outcome outcome = File().read_as(pieces.join());
  REQUIRE(outcome.opened.ok());
  CHECK(outcome.visited.ok());
  CHECK(outcome.records.gaps.size() == 4);
  CHECK(outcome.records.gaps[0].start_ns == 50);
}

TEST_CASE("an activity whose kernel is not in the table is corrupt", "[trace]") {
  ScratchFolder folder;
  const std::string path = folder.file("kernel.gpuidle");
  RandomRecording random(12);
  random.grow_tables(3);
  auto writer = TraceWriter::create(path, random.info(), {});
  REQUIRE(writer.ok());
  model::Slice slice;
  slice.activities.resize(1);
  slice.activities[0].kernel = 4;
  REQUIRE(writer.value()->write(random.tables, slice, {}).ok());
  const Outcome outcome = read(path);
  REQUIRE(outcome.opened.ok());
  CHECK(outcome.visited.code() == base::StatusCode::corrupt);
  CHECK(outcome.visited.message().find("an activity names kernel 4") != std::string::npos);
}

TEST_CASE("lengths that a file cannot justify are refused before memory is taken", "[trace]") {
  Pieces pieces(small_trace(false));
  Chunk& chunk = pieces.chunks[pieces.find(ChunkKind::activities)];
  File file;
  SECTION("more records than bytes") {
    chunk.header.record_count = chunk.header.uncompressed_bytes + 1;
  }
  SECTION("records that their first column has no bytes for") {
    chunk.header.record_count = chunk.header.uncompressed_bytes - 1;
  }
  SECTION("an inflated size beyond the limit") {
    chunk.header.flags = kChunkCompressed;
    chunk.header.uncompressed_bytes = UINT32_MAX;
  }
  SECTION("an inflated size that the payload is too short for") {
    chunk.header.flags = kChunkCompressed;
    chunk.header.uncompressed_bytes =
        kFreeUncompressedBytes + kMaxCompressionRatio * chunk.header.payload_bytes + 1;
  }
  SECTION("a frame that inflates to something else than the header says") {
    Bytes zeros(4000);
    Bytes frame(ZSTD_compressBound(zeros.size()));
    frame.resize(ZSTD_compress(frame.data(), frame.size(), zeros.data(), zeros.size(), 1));
    chunk.payload = frame;
    chunk.header.flags = kChunkCompressed;
    chunk.header.payload_bytes = static_cast<std::uint32_t>(frame.size());
    chunk.header.uncompressed_bytes = 3999;
  }
  SECTION("a frame of nothing but zeros") {
    Bytes zeros(4000);
    Bytes frame(ZSTD_compressBound(zeros.size()));
    frame.resize(ZSTD_compress(frame.data(), frame.size(), zeros.data(), zeros.size(), 1));
    chunk.payload = frame;
    chunk.header.flags = kChunkCompressed;
    chunk.header.payload_bytes = static_cast<std::uint32_t>(frame.size());
    chunk.header.uncompressed_bytes = 4000;
  }
  SECTION("times beyond what differences can hold") {
    chunk.header.min_start_ns = INT64_MIN;
    chunk.header.max_end_ns = INT64_MAX;
  }
  const Outcome outcome = file.read_as(pieces.join());
  REQUIRE(outcome.opened.ok());
  CHECK(outcome.visited.code() == base::StatusCode::corrupt);
  CHECK(outcome.records.activities.empty());
}

TEST_CASE("files on which a reader once failed are read", "[trace]") {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GPUIDLE_TRACE_CORPUS)) {
    CAPTURE(entry.path());
    read(entry.path());
    ++count;
  }
  CHECK(count > 0);
}

TEST_CASE("what is no trace is told apart", "[trace]") {
  ScratchFolder folder;
  const std::string path = folder.file("not_a_trace");
  const auto refused = [&](const Bytes& bytes) {
    write_bytes(path, bytes);
    return open_trace(path).status();
  };
  CHECK(refused({}).code() == base::StatusCode::truncated);
  CHECK(refused({0x89, 'G', 'P'}).code() == base::StatusCode::truncated);
  CHECK(refused({'h', 'e', 'l', 'l', 'o'}).code() == base::StatusCode::wrong_format);
  CHECK(refused(Bytes(100, 0x41)).message() ==
        "cannot read " + path + ": not a gpuidle trace (the first 8 bytes are not its magic)");
  CHECK(open_trace(path + ".missing").status().code() == base::StatusCode::not_found);
  CHECK(open_trace("/").status().message() == "cannot read /: Is a directory");
  CHECK(open_trace("/dev/null").status().code() == base::StatusCode::io_error);
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(open_trace(pipe).status().code() == base::StatusCode::io_error);
  // Fails for the superuser too, unlike a file without permissions.
  CHECK(open_trace("/proc/1/mem/x").status().code() == base::StatusCode::not_found);
}

TEST_CASE("a file without permission is told as such", "[trace]") {
  if (geteuid() == 0) {
    WARN("skipped: the superuser may read every file");
    return;
  }
  ScratchFolder folder;
  const std::string path = folder.file("secret.gpuidle");
  write_bytes(path, small_trace(true));
  REQUIRE(chmod(path.c_str(), 0) == 0);
  CHECK(open_trace(path).status().code() == base::StatusCode::permission_denied);
}

TEST_CASE("a file that shrinks while it is read is an error, not a crash", "[trace]") {
  File file;
  const Bytes whole = small_trace(true);
  file.hold(whole);
  auto recording = open_trace(file.path());
  REQUIRE(recording.ok());
  REQUIRE(truncate(file.path().c_str(), static_cast<off_t>(whole.size() / 2)) == 0);
  Collector collector;
  const base::Status status = recording.value()->visit(collector);
  CHECK(status.code() == base::StatusCode::truncated);
}

TEST_CASE("a file that grows meanwhile reads as it was when it was opened", "[trace]") {
  ScratchFolder folder;
  const std::string path = folder.file("growing.gpuidle");
  RandomRecording random(13);
  random.grow_tables(3);
  auto writer = TraceWriter::create(path, random.info(), {});
  REQUIRE(writer.ok());
  model::Slice first = random.slice(0, 1000, 10);
  REQUIRE(writer.value()->write(random.tables, first, {}).ok());
  auto recording = open_trace(path);
  REQUIRE(recording.ok());
  random.grow_tables(3);
  model::Slice second = random.slice(0, 1000, 10);
  REQUIRE(writer.value()->write(random.tables, second, {}).ok());
  Collector collector;
  REQUIRE(recording.value()->visit(collector).ok());
  CHECK(is_same(collector.all, first));
}
