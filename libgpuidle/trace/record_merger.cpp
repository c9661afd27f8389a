// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/record_merger.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "libgpuidle/trace/chunk_decoder.h"

namespace gpuidle::trace {
namespace {

// A slice ends at the first chunk boundary after this many records: small enough that slice and
// chunk buffers stay in the cache, large enough that per-slice work of visitors vanishes.
constexpr std::size_t kRecordsPerSlice = 16 * 1024;

// Records of one kind that may wait for their time at once. A recorder delivers records some
// seconds late at most; what exceeds this was not written by one.
constexpr std::size_t kMaxWaitingRecords = 16u << 20;

constexpr std::int64_t kForever_ns = std::numeric_limits<std::int64_t>::max();

std::int64_t start_of(const model::ApiCall& call) { return call.enter_ns; }
template <typename Row>
std::int64_t start_of(const Row& row) {
  return row.start_ns;
}

// What all streams share: the file, one set of buffers, and the first chunk that is damaged.
struct Source {
  const ChunkFile& file;
  RecordDecoder decoder;
  ChunkBuffers buffers;
  std::size_t chunk_count;  ///< chunks from here on are not delivered
  base::Status damage;

  void fail(std::size_t chunk, base::Status status) {
    if (chunk >= chunk_count) return;
    chunk_count = chunk;
    damage = std::move(status);
  }
};

// The records of one kind in ascending order of start.
template <typename Row>
class Stream {
 public:
  Stream(const ChunkFile& file, std::size_t chunk_count, ChunkKind kind) {
    for (std::size_t i = 0; i < chunk_count; ++i) {
      if (file.chunks()[i].header.kind == kind) chunks_.push_back(i);
    }
    std::stable_sort(chunks_.begin(), chunks_.end(), [&](std::size_t a, std::size_t b) {
      return file.chunks()[a].header.min_start_ns < file.chunks()[b].header.min_start_ns;
    });
  }

  // Replaces `out` by the records that start before `until_ns` and were not taken before.
  void take_until(std::int64_t until_ns, Source& source, std::vector<Row>& out) {
    out.clear();
    while (next_ < chunks_.size()) {
      const std::size_t chunk = chunks_[next_];
      if (source.file.chunks()[chunk].header.min_start_ns >= until_ns) break;
      ++next_;
      if (chunk < source.chunk_count) load(chunk, source);
    }
    const auto first = waiting_.begin() + static_cast<std::ptrdiff_t>(taken_);
    if (waiting_.empty() || start_of(waiting_.back()) < until_ns) {
      if (taken_ == 0) {
        out.swap(waiting_);
      } else {
        out.assign(first, waiting_.end());
        waiting_.clear();
      }
      taken_ = 0;
      return;
    }
    const auto last = std::partition_point(
        first, waiting_.end(), [&](const Row& row) { return start_of(row) < until_ns; });
    out.assign(first, last);
    taken_ += out.size();
    if (taken_ > waiting_.size() / 2) {
      waiting_.erase(waiting_.begin(), last);
      taken_ = 0;
    }
  }

 private:
  void load(std::size_t chunk, Source& source) {
    const ChunkHeader& header = source.file.chunks()[chunk].header;
    if (waiting_.size() - taken_ + header.record_count > kMaxWaitingRecords) {
      source.fail(chunk, source.file.corrupt_chunk(chunk, "more than " +
                                                              std::to_string(kMaxWaitingRecords) +
                                                              " records overlap in time with it"));
      return;
    }
    base::Status status = source.file.load(chunk, &source.buffers);
    if (!status.ok()) return source.fail(chunk, std::move(status));
    const std::size_t before = waiting_.size();
    const std::string problem = source.decoder.append(header, source.buffers.bytes(),
                                                      source.buffers.size_bytes(), &waiting_);
    if (!problem.empty()) return source.fail(chunk, source.file.corrupt_chunk(chunk, problem));
    if (before == waiting_.size()) return;
    const auto middle = waiting_.begin() + static_cast<std::ptrdiff_t>(before);
    const auto by_start = [](const Row& a, const Row& b) { return start_of(a) < start_of(b); };
    const auto overlap = std::upper_bound(waiting_.begin() + static_cast<std::ptrdiff_t>(taken_),
                                          middle, *middle, by_start);
    if (overlap != middle) std::inplace_merge(overlap, middle, waiting_.end(), by_start);
  }

  std::vector<std::size_t> chunks_;  ///< by their first start
  std::size_t next_ = 0;
  std::vector<Row> waiting_;  ///< loaded, sorted; the first `taken_` are already out
  std::size_t taken_ = 0;
};

// Where slices may end: a moment at which some chunk begins, and how many records begin there.
struct Boundary {
  std::int64_t at_ns;
  std::uint32_t record_count;
};

// The ends of all slices but the last, ascending, chosen so that each slice but the last has about
// kRecordsPerSlice records where chunks do not overlap. `begin_ns` and `end_ns` receive the whole.
std::vector<std::int64_t> slice_ends(const ChunkFile& file, std::size_t chunk_count,
                                     std::int64_t* begin_ns, std::int64_t* end_ns) {
  std::vector<Boundary> boundaries;
  *begin_ns = kForever_ns;
  *end_ns = 0;
  for (std::size_t i = 0; i < chunk_count; ++i) {
    const ChunkHeader& header = file.chunks()[i].header;
    if (!has_times(header.kind) || header.record_count == 0) continue;
    *end_ns =
        *begin_ns == kForever_ns ? header.max_end_ns + 1 : std::max(*end_ns, header.max_end_ns + 1);
    *begin_ns = std::min(*begin_ns, header.min_start_ns);
    const bool runs_ahead = header.kind == ChunkKind::calls;
    boundaries.push_back(
        {header.min_start_ns - (runs_ahead ? model::kCallLead_ns : 0), header.record_count});
  }
  std::sort(boundaries.begin(), boundaries.end(),
            [](const Boundary& a, const Boundary& b) { return a.at_ns < b.at_ns; });
  std::vector<std::int64_t> ends;
  std::size_t records = 0;
  for (const Boundary& boundary : boundaries) {
    if (records >= kRecordsPerSlice && boundary.at_ns > *begin_ns &&
        (ends.empty() || boundary.at_ns > ends.back())) {
      ends.push_back(boundary.at_ns);
      records = 0;
    }
    records += boundary.record_count;
  }
  return ends;
}

}  // namespace

base::Status merge_records(const ChunkFile& file, std::size_t chunk_count,
                           const model::Tables& tables, model::SliceVisitor& visitor) {
  model::Slice slice;
  std::int64_t whole_end_ns = 0;
  std::vector<std::int64_t> ends = slice_ends(file, chunk_count, &slice.begin_ns, &whole_end_ns);
  if (slice.begin_ns == kForever_ns) return {};
  ends.push_back(whole_end_ns);
  Source source{file, RecordDecoder(tables), {}, chunk_count, {}};
  Stream<model::DeviceActivity> activities(file, chunk_count, ChunkKind::activities);
  Stream<model::ApiCall> calls(file, chunk_count, ChunkKind::calls);
  Stream<model::Marker> markers(file, chunk_count, ChunkKind::markers);
  Stream<model::Overhead> overheads(file, chunk_count, ChunkKind::overheads);
  Stream<model::Unobserved> unobserved(file, chunk_count, ChunkKind::unobserved);
  Stream<model::RecordedGap> gaps(file, chunk_count, ChunkKind::gaps);
  Stream<model::ThreadSample> samples(file, chunk_count, ChunkKind::samples);
  for (const std::int64_t end_ns : ends) {
    slice.end_ns = end_ns;
    const bool is_last = end_ns == whole_end_ns;
    calls.take_until(is_last ? kForever_ns : end_ns + model::kCallLead_ns, source, slice.calls);
    activities.take_until(end_ns, source, slice.activities);
    markers.take_until(end_ns, source, slice.markers);
    overheads.take_until(end_ns, source, slice.overheads);
    unobserved.take_until(end_ns, source, slice.unobserved);
    gaps.take_until(end_ns, source, slice.gaps);
    samples.take_until(end_ns, source, slice.samples);
    if (!slice.empty()) visitor.on_slice(slice);
    slice.begin_ns = end_ns;
  }
  return source.damage;
}

}  // namespace gpuidle::trace
