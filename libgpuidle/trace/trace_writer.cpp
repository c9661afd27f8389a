// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/trace_writer.h"

#include <zstd.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "libgpuidle/trace/chunk_encoder.h"
#include "libgpuidle/trace/crc32c.h"
#include "libgpuidle/trace/file_sink.h"
#include "libgpuidle/trace/trace_format.h"

namespace gpuidle::trace {
namespace {

// Enough records that the fixed cost of a chunk (about 300 bytes) vanishes, few enough that a
// reader's working set stays in the second-level cache.
constexpr std::size_t kRecordsPerChunk = 16 * 1024;

// The index is kept in memory until the end; beyond this many chunks (some hours of busy
// recording) the file goes without one, so that a recording of weeks costs no more than this.
constexpr std::size_t kMaxIndexedChunks = 128 * 1024;

bool is_sane(std::int64_t start_ns, std::int64_t end_ns) {
  return start_ns <= end_ns && start_ns >= -kMaxTime_ns && end_ns <= kMaxTime_ns;
}

// Takes out what no reader would accept; counts it as lost.
template <typename Row, typename Start, typename End>
void drop_insane(std::vector<Row>& rows, Start start_of, End end_of, model::Losses* losses) {
  const auto count = [&](model::LossReason reason) {
    ++losses->count[static_cast<std::size_t>(reason)];
  };
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [&](const Row& row) {
                              const std::int64_t start_ns = start_of(row), end_ns = end_of(row);
                              if (is_sane(start_ns, end_ns)) return false;
                              count(end_ns < start_ns ? model::LossReason::reversed_timestamp
                                                      : model::LossReason::outside_session);
                              return true;
                            }),
             rows.end());
}

constexpr auto kStart = [](const auto& row) { return row.start_ns; };
constexpr auto kEnd = [](const auto& row) { return row.end_ns; };

bool is_same(const model::Device& a, const model::Device& b) {
  return a.ordinal == b.ordinal && a.name == b.name && a.multiprocessors == b.multiprocessors &&
         a.compute_major == b.compute_major && a.compute_minor == b.compute_minor &&
         a.memory_bytes == b.memory_bytes && a.merely_listed == b.merely_listed;
}

struct ZstdContextDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

}  // namespace

struct TraceWriter::State {
  State(int fd, const std::string& path, const WriterOptions& writer_options)
      : sink(fd, path), options(writer_options) {
    if (!options.compress) return;
    zstd.reset(ZSTD_createCCtx());
    if (zstd)
      ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_compressionLevel, options.compression_level);
  }

  FileSink sink;
  WriterOptions options;
  ChunkEncoder encoder;
  std::unique_ptr<ZSTD_CCtx, ZstdContextDeleter> zstd;  ///< none: chunks are stored as they are
  std::vector<std::uint8_t> pending;    ///< whole chunks that go to the kernel in one write
  std::vector<std::uint8_t> last_info;  ///< to tell whether finish() has news
  std::vector<ChunkHeader> index;
  bool has_index = true;
  TableProgress tables_written;
  std::vector<model::Device> devices_written;
  model::Losses losses_given;  ///< the caller's latest totals
  model::Losses losses_found;  ///< what this writer itself refused
  model::Losses losses_written;
  base::Status failure;
  bool is_finished = false;

  std::size_t compress(const EncodedChunk& chunk, std::uint8_t* out, std::size_t capacity);
  void append(const EncodedChunk& chunk);
  base::Status flush();
  void append_tables(const model::Tables& tables);
  void append_records(model::Slice& slice);
  void append_losses();
  model::Losses losses() const;
  template <typename Row>
  void append_rows(const std::vector<Row>& rows);
  /// Runs one public operation: refuses after a failure, keeps the first one, lets nothing escape.
  template <typename Operation>
  base::Status guard(Operation operation) noexcept;
};

// Each seam ends a block of the frame, so that every plane of a column gets literal statistics of
// its own. Returns the size of the frame, or 0 if it does not fit into `capacity` bytes.
std::size_t TraceWriter::State::compress(const EncodedChunk& chunk, std::uint8_t* out,
                                         std::size_t capacity) {
  ZSTD_CCtx_reset(zstd.get(), ZSTD_reset_session_only);
  ZSTD_CCtx_setPledgedSrcSize(zstd.get(), chunk.size_bytes);
  ZSTD_outBuffer output{out, capacity, 0};
  ZSTD_inBuffer input{chunk.bytes, 0, 0};
  for (const std::size_t seam : *chunk.seams) {
    input.size = seam;
    // Not 0: an error, or more to flush than there is room.
    if (ZSTD_compressStream2(zstd.get(), &output, &input, ZSTD_e_flush) != 0) return 0;
  }
  input.size = chunk.size_bytes;
  if (ZSTD_compressStream2(zstd.get(), &output, &input, ZSTD_e_end) != 0) return 0;
  return output.pos;
}

void TraceWriter::State::append(const EncodedChunk& chunk) {
  ChunkHeader header = chunk.header;
  header.uncompressed_bytes = static_cast<std::uint32_t>(chunk.size_bytes);
  const std::size_t header_at = pending.size();
  const std::size_t payload_at = header_at + kChunkHeaderBytes;
  std::size_t payload_bytes = 0;
  if (zstd) {
    // A frame that needs as much as the chunk itself is of no use, so there is no more room.
    pending.resize(payload_at + chunk.size_bytes);
    payload_bytes = compress(chunk, pending.data() + payload_at, chunk.size_bytes);
    header.flags = kChunkCompressed;
    header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
    if (!has_sane_sizes(header)) payload_bytes = 0;
  }
  if (payload_bytes == 0) {
    header.flags = 0;
    payload_bytes = chunk.size_bytes;
    pending.resize(payload_at);
    pending.insert(pending.end(), chunk.bytes, chunk.bytes + chunk.size_bytes);
  }
  pending.resize(payload_at + payload_bytes);
  header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
  header.payload_crc = crc32c(pending.data() + payload_at, payload_bytes);
  store_chunk_header(header, pending.data() + header_at);
  if (has_index && index.size() == kMaxIndexedChunks) {
    has_index = false;
    std::vector<ChunkHeader>().swap(index);
  }
  if (has_index) index.push_back(header);
}

base::Status TraceWriter::State::flush() {
  if (pending.empty()) return {};
  base::Status status = sink.append(pending.data(), pending.size());
  pending.clear();
  return status;
}

void TraceWriter::State::append_tables(const model::Tables& tables) {
  const auto& devices = tables.devices();
  bool with_devices = !std::equal(devices.begin(), devices.end(), devices_written.begin(),
                                  devices_written.end(), is_same);
  while (with_devices || !ChunkEncoder::is_complete(tables, tables_written)) {
    const bool had_all_strings = tables_written.strings == tables.strings().size();
    const EncodedChunk chunk = encoder.encode_tables(tables, with_devices, &tables_written);
    append(chunk);
    if (had_all_strings || tables_written.strings == tables.strings().size()) {
      if (with_devices) devices_written = devices;
      with_devices = false;
    }
  }
}

template <typename Row>
void TraceWriter::State::append_rows(const std::vector<Row>& rows) {
  // Even parts: a short remainder would pay the fixed cost for few records.
  const std::size_t parts = (rows.size() + kRecordsPerChunk - 1) / kRecordsPerChunk;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = rows.size() * part / parts;
    const std::size_t end = rows.size() * (part + 1) / parts;
    append(encoder.encode(rows.data() + first, end - first));
  }
}

void TraceWriter::State::append_records(model::Slice& slice) {
  drop_insane(slice.activities, kStart, kEnd, &losses_found);
  drop_insane(
      slice.calls, [](const model::ApiCall& c) { return c.enter_ns; },
      [](const model::ApiCall& c) { return c.exit_ns; }, &losses_found);
  drop_insane(slice.markers, kStart, kEnd, &losses_found);
  drop_insane(slice.overheads, kStart, kEnd, &losses_found);
  drop_insane(slice.unobserved, kStart, kEnd, &losses_found);
  drop_insane(slice.gaps, kStart, kEnd, &losses_found);
  drop_insane(slice.samples, kStart, kEnd, &losses_found);
  slice.sort();
  append_rows(slice.calls);
  append_rows(slice.activities);
  append_rows(slice.markers);
  append_rows(slice.overheads);
  append_rows(slice.unobserved);
  append_rows(slice.gaps);
  append_rows(slice.samples);
}

model::Losses TraceWriter::State::losses() const {
  model::Losses total = losses_given;
  for (std::size_t i = 0; i < total.count.size(); ++i) total.count[i] += losses_found.count[i];
  return total;
}

void TraceWriter::State::append_losses() {
  const model::Losses total = losses();
  if (total.count == losses_written.count) return;
  append(encoder.encode(total));
  losses_written = total;
}

template <typename Operation>
base::Status TraceWriter::State::guard(Operation operation) noexcept {
  if (!failure.ok()) return failure;
  try {
    if (is_finished) {
      return base::Status(base::StatusCode::invalid_argument, "the trace is finished");
    }
    base::Status status = operation();
    if (!status.ok()) failure = status;
    return status;
  } catch (const std::exception&) {
    // Nothing but a lack of memory throws in here; a short message fits without the heap.
    pending.clear();
    failure = base::Status(base::StatusCode::internal, "out of memory");
    return failure;
  }
}

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::~TraceWriter() = default;

base::Result<std::unique_ptr<TraceWriter>> TraceWriter::create(const std::string& path,
                                                               const model::RecordingInfo& info,
                                                               const WriterOptions& options) {
  base::Result<int> fd = FileSink::create(path);
  if (!fd.ok()) return fd.status();
  return adopt(fd.value(), path, info, options);
}

base::Result<std::unique_ptr<TraceWriter>> TraceWriter::adopt(int fd, const std::string& path,
                                                              const model::RecordingInfo& info,
                                                              const WriterOptions& options) {
  try {
    auto state = std::make_unique<State>(fd, path, options);
    FileHeader header;
    header.pid = info.pid;
    header.features = kHasSamples;
    if (info.recording_start_ns && info.realtime_offset_ns) {
      header.monotonic_start_ns = *info.recording_start_ns;
      header.realtime_start_ns = *info.recording_start_ns + *info.realtime_offset_ns;
    }
    state->pending.resize(kFileHeaderBytes);
    store_file_header(header, state->pending.data());
    std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(state)));
    base::Status status = writer->write_info(info);
    if (!status.ok()) return status;
    return writer;
  } catch (const std::exception&) {
    return base::Status(base::StatusCode::internal, "out of memory");
  }
}

base::Status TraceWriter::write(const model::Tables& tables, model::Slice& slice,
                                const model::Losses& losses) {
  return state_->guard([&] {
    state_->losses_given = losses;
    state_->append_tables(tables);
    state_->append_records(slice);
    state_->append_losses();
    return state_->flush();
  });
}

base::Status TraceWriter::write_info(const model::RecordingInfo& info) {
  return state_->guard([&] {
    const EncodedChunk chunk = state_->encoder.encode(info);
    const std::vector<std::uint8_t> bytes(chunk.bytes, chunk.bytes + chunk.size_bytes);
    if (bytes == state_->last_info) return base::Status();
    state_->append(chunk);
    state_->last_info = bytes;
    return state_->flush();
  });
}

base::Status TraceWriter::finish(const model::RecordingInfo& info) {
  base::Status status = write_info(info);
  if (!status.ok()) return status;
  return state_->guard([&] {
    State& s = *state_;
    for (std::size_t i = 0; i < info.losses.count.size(); ++i) {
      s.losses_given.count[i] = std::max(s.losses_given.count[i], info.losses.count[i]);
    }
    const std::uint64_t footer_at = s.sink.bytes_written();
    // The footer is not part of its own index.
    const EncodedChunk footer =
        s.encoder.encode_footer(s.losses(), s.index.data(), s.has_index ? s.index.size() : 0);
    s.append(footer);
    const std::size_t trailer_at = s.pending.size();
    s.pending.resize(trailer_at + kTrailerBytes);
    store_trailer(footer_at, s.pending.data() + trailer_at);
    base::Status flushed = s.flush();
    s.is_finished = true;
    return flushed.ok() ? s.sink.close() : flushed;
  });
}

std::uint64_t TraceWriter::bytes_written() const { return state_->sink.bytes_written(); }

}  // namespace gpuidle::trace
