// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/trace_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libgpuidle/trace/chunk_decoder.h"
#include "libgpuidle/trace/chunk_file.h"
#include "libgpuidle/trace/record_merger.h"

namespace gpuidle::trace {
namespace {

class TraceRecording : public model::Recording {
 public:
  explicit TraceRecording(std::unique_ptr<ChunkFile> file) : file_(std::move(file)) {}

  base::Status read_dictionaries();

  base::Status visit(model::SliceVisitor& visitor) const override {
    base::Status status = merge_records(*file_, usable_chunks_, tables_, visitor);
    return status.ok() ? damage_ : status;
  }

 private:
  std::string read_chunk(const ChunkHeader& header, const ChunkBuffers& buffers);
  void note_times(const ChunkHeader& header);
  void conclude();

  std::unique_ptr<ChunkFile> file_;
  std::size_t usable_chunks_ = 0;  ///< those before the first damaged one
  base::Status damage_;
  bool has_info_ = false;
  std::uint64_t launches_in_chunks_ = 0;
  std::optional<std::int64_t> last_end_ns_;
};

// Everything but the records, which wait for visit().
std::string TraceRecording::read_chunk(const ChunkHeader& header, const ChunkBuffers& buffers) {
  const std::uint8_t* bytes = buffers.bytes();
  const std::size_t size_bytes = buffers.size_bytes();
  switch (header.kind) {
    case ChunkKind::info: {
      std::string problem = decode_info(bytes, size_bytes, &info_);
      has_info_ |= problem.empty();
      return problem;
    }
    case ChunkKind::tables:
      return decode_tables(bytes, size_bytes, header.record_count, &tables_);
    case ChunkKind::losses:
      return decode_losses(bytes, size_bytes, &info_.losses);
    case ChunkKind::footer:
      return decode_footer_losses(bytes, size_bytes, &info_.losses);
    default:
      return {};
  }
}

void TraceRecording::note_times(const ChunkHeader& header) {
  if (!has_times(header.kind) || header.record_count == 0) return;
  launches_in_chunks_ += header.launch_count;
  last_end_ns_ = std::max(last_end_ns_.value_or(header.max_end_ns), header.max_end_ns);
}

base::Status TraceRecording::read_dictionaries() {
  ChunkBuffers buffers;
  const auto& chunks = file_->chunks();
  damage_ = file_->damage();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const ChunkHeader& header = chunks[i].header;
    note_times(header);
    const bool is_read_now = header.kind == ChunkKind::info || header.kind == ChunkKind::tables ||
                             header.kind == ChunkKind::losses || header.kind == ChunkKind::footer;
    if (is_read_now) {
      base::Status status = file_->load(i, &buffers);
      if (status.ok()) {
        const std::string problem = read_chunk(header, buffers);
        if (!problem.empty()) status = file_->corrupt_chunk(i, problem);
      }
      if (!status.ok()) {
        damage_ = std::move(status);
        break;
      }
    }
    usable_chunks_ = i + 1;
  }
  if (!has_info_) {
    if (!damage_.ok()) return damage_;
    return base::Status(base::StatusCode::truncated,
                        "cannot read " + file_->path() +
                            ": it ends before its first whole chunk (" +
                            std::to_string(file_->size_bytes()) + " bytes)");
  }
  conclude();
  return {};
}

void TraceRecording::conclude() {
  const FileHeader& header = file_->header();
  info_.format = "gpuidle " + std::to_string(header.major) + "." + std::to_string(header.minor);
  if (info_.pid == 0) info_.pid = header.pid;
  info_.end = file_->has_footer() ? model::End::clean : model::End::abrupt;
  // The footer of a converted recording was written by who converted it, not as its program ended.
  if (info_.end == model::End::clean && info_.source == model::Source::imported) {
    info_.end = model::End::unknown;
  }
  if (last_end_ns_) {
    info_.recording_end_ns =
        std::max(info_.recording_end_ns.value_or(*last_end_ns_), *last_end_ns_);
  }
  info_.launch_calls = std::max(info_.launch_calls, launches_in_chunks_);
  // A converted file repeats what was said about its source.
  const auto warn = [this](const std::string& warning) {
    auto& known = info_.warnings;
    if (std::find(known.begin(), known.end(), warning) == known.end()) known.push_back(warning);
  };
  for (const std::string& warning : file_->warnings()) warn(warning);
  if (!damage_.ok()) {
    warn(damage_.message() + "; what follows is lost");
  } else if (!file_->has_footer()) {
    warn("the file has no footer: the program was killed or crashed, or is still running");
  }
}

}  // namespace

bool is_trace(const void* first_bytes, std::size_t count) {
  return count >= sizeof kFileMagic && std::memcmp(first_bytes, kFileMagic, sizeof kFileMagic) == 0;
}

base::Result<std::unique_ptr<model::Recording>> open_trace(const std::string& path) {
  base::Result<std::unique_ptr<ChunkFile>> file = ChunkFile::open(path);
  if (!file.ok()) return file.status();
  auto recording = std::make_unique<TraceRecording>(file.take());
  base::Status status = recording->read_dictionaries();
  if (!status.ok()) return status;
  return std::unique_ptr<model::Recording>(std::move(recording));
}

}  // namespace gpuidle::trace
