// SPDX-License-Identifier: Apache-2.0
//
// ChunkEncoder, the records: activities, calls, samples and the four kinds of spans.
#include <cstring>
#include <unordered_map>

#include "libgpuidle/trace/encoder_state.h"

namespace gpuidle::trace {
namespace {

using Expansion = ColumnEncoder::Expansion;
using Shape = ColumnEncoder::Shape;

// Gives equal rows of a chunk one small number, in order of first appearance. `Row` is a struct of
// the schema: no padding that is not zeroed by its constructor, so that bytes can be compared.
template <typename Row>
class ChunkDictionary {
 public:
  std::uint32_t id_of(const Row& row) {
    // Steady loops repeat the row before, or one of few: try that before hashing.
    if (!rows_.empty() && is_equal(rows_[last_], row)) return last_;
    const auto [first, end] = index_.equal_range(hash_of(row));
    for (auto it = first; it != end; ++it) {
      if (is_equal(rows_[it->second], row)) return last_ = it->second;
    }
    last_ = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back(row);
    index_.emplace(hash_of(row), last_);
    return last_;
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  static bool is_equal(const Row& a, const Row& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
  static std::uint64_t hash_of(const Row& row) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&row);
    for (std::size_t i = 0; i + 4 <= sizeof row; i += 4) {
      std::uint32_t word;
      std::memcpy(&word, bytes + i, sizeof word);
      hash = (hash ^ word) * 0x100000001b3ULL;
      hash ^= hash >> 29;
    }
    return hash;
  }

  std::vector<Row> rows_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> index_;
  std::uint32_t last_ = 0;
};
static_assert(sizeof(schema::Lane) % 4 == 0 && sizeof(schema::Operation) % 4 == 0 &&
              sizeof(schema::Site) % 4 == 0 && sizeof(schema::Sighting) % 4 == 0);

schema::Operation operation_of(const model::DeviceActivity& a) {
  return schema::Operation(a.kernel, a.name, static_cast<schema::ActivityKind>(a.kind),
                           static_cast<schema::CopyKind>(a.copy),
                           static_cast<schema::MemoryKind>(a.source),
                           static_cast<schema::MemoryKind>(a.destination), a.is_async);
}

template <typename Row, typename End>
void set_times(const Row* records, std::size_t count, std::int64_t first_start_ns, End end_of,
               ChunkHeader* header) {
  header->min_start_ns = first_start_ns;
  header->max_end_ns = end_of(records[0]);
  for (std::size_t i = 1; i < count; ++i) {
    header->max_end_ns = std::max(header->max_end_ns, end_of(records[i]));
  }
}

constexpr auto kEnd = [](const auto& record) { return record.end_ns; };
constexpr auto kStart = [](const auto& record) { return record.start_ns; };
constexpr auto kDuration = [](const auto& record) { return record.end_ns - record.start_ns; };
constexpr auto kThread = [](const auto& record) { return record.thread; };

}  // namespace

EncodedChunk ChunkEncoder::encode(const model::DeviceActivity* records, std::size_t count) {
  State& s = *state_;
  s.start();
  ChunkDictionary<schema::Lane> lanes;
  ChunkDictionary<schema::Operation> operations;
  s.key_values.resize(count);
  s.second_key_values.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const model::DeviceActivity& a = records[i];
    s.key_values[i] = lanes.id_of(schema::Lane(a.device, a.context, a.stream));
    s.second_key_values[i] = operations.id_of(operation_of(a));
  }
  const ColumnKeys by_lane{s.key_values.data(), lanes.rows().size()};
  const ColumnKeys by_operation{s.second_key_values.data(), operations.rows().size()};

  s.fill(records, count, kStart);
  const auto start = s.column(Shape::ascending, Expansion::byte_per_value);
  const auto duration = s.column_of(records, count, kDuration, by_operation);
  const auto correlation = s.column_of(
      records, count, [](const auto& a) { return a.correlation; }, by_lane);
  const auto bytes = s.column_of(records, count, [](const auto& a) { return a.bytes; });
  const auto graph = s.column_of(records, count, [](const auto& a) { return a.graph; });
  s.values.assign(s.key_values.begin(), s.key_values.end());
  const auto lane = s.column();
  s.values.assign(s.second_key_values.begin(), s.second_key_values.end());
  const auto operation = s.column();
  const auto lane_rows = s.builder.CreateVectorOfStructs(lanes.rows());
  const auto operation_rows = s.builder.CreateVectorOfStructs(operations.rows());
  EncodedChunk chunk =
      s.finish(ChunkKind::activities, count,
               schema::CreateActivities(s.builder, lane_rows, operation_rows, start, duration, lane,
                                        operation, correlation, bytes, graph));
  set_times(records, count, records[0].start_ns, kEnd, &chunk.header);
  return chunk;
}

EncodedChunk ChunkEncoder::encode(const model::ApiCall* records, std::size_t count) {
  State& s = *state_;
  s.start();
  ChunkDictionary<schema::Site> sites;
  s.key_values.resize(count);
  std::uint32_t launch_count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const model::ApiCall& c = records[i];
    s.key_values[i] = sites.id_of(
        schema::Site(c.thread, c.api, c.stack, c.result, static_cast<schema::ApiRole>(c.role)));
    if (c.role == model::ApiRole::launch || c.role == model::ApiRole::graph_launch) ++launch_count;
  }
  const ColumnKeys by_site{s.key_values.data(), sites.rows().size()};

  s.fill(records, count, [](const auto& c) { return c.enter_ns; });
  const auto enter = s.column(Shape::ascending, Expansion::byte_per_value);
  const auto duration = s.column_of(
      records, count, [](const auto& c) { return c.exit_ns - c.enter_ns; }, by_site);
  const auto correlation = s.column_of(records, count, [](const auto& c) { return c.correlation; });
  s.values.assign(s.key_values.begin(), s.key_values.end());
  const auto site = s.column();
  const auto site_rows = s.builder.CreateVectorOfStructs(sites.rows());
  EncodedChunk chunk =
      s.finish(ChunkKind::calls, count,
               schema::CreateCalls(s.builder, site_rows, enter, duration, site, correlation));
  set_times(
      records, count, records[0].enter_ns, [](const auto& c) { return c.exit_ns; }, &chunk.header);
  chunk.header.launch_count = launch_count;
  return chunk;
}

EncodedChunk ChunkEncoder::encode(const model::Marker* records, std::size_t count) {
  State& s = *state_;
  s.start();
  s.fill(records, count, kStart);
  const auto start = s.column(Shape::ascending, Expansion::byte_per_value);
  const auto duration = s.column_of(records, count, kDuration);
  const auto label = s.column_of(records, count, [](const auto& m) { return m.name; });
  const auto thread = s.column_of(records, count, kThread);
  const auto variety = s.column_of(records, count, [](const auto& m) { return m.kind; });
  EncodedChunk chunk =
      s.finish(ChunkKind::markers, count,
               schema::CreateSpans(s.builder, start, duration, label, thread, variety));
  set_times(records, count, records[0].start_ns, kEnd, &chunk.header);
  return chunk;
}

EncodedChunk ChunkEncoder::encode(const model::Overhead* records, std::size_t count) {
  State& s = *state_;
  s.start();
  s.fill(records, count, kStart);
  const auto start = s.column(Shape::ascending, Expansion::byte_per_value);
  const auto duration = s.column_of(records, count, kDuration);
  const auto label = s.column_of(records, count, [](const auto& o) { return o.name; });
  const auto thread = s.column_of(records, count, kThread);
  const auto variety =
      s.column_of(records, count, [](const auto& o) { return o.is_profiler ? 1 : 0; });
  EncodedChunk chunk =
      s.finish(ChunkKind::overheads, count,
               schema::CreateSpans(s.builder, start, duration, label, thread, variety));
  set_times(records, count, records[0].start_ns, kEnd, &chunk.header);
  return chunk;
}

EncodedChunk ChunkEncoder::encode(const model::Unobserved* records, std::size_t count) {
  State& s = *state_;
  s.start();
  s.fill(records, count, kStart);
  const auto start = s.column(Shape::ascending, Expansion::byte_per_value);
  const auto duration = s.column_of(records, count, kDuration);
  const auto label = s.column_of(records, count, [](const auto& u) { return u.reason; });
  EncodedChunk chunk = s.finish(ChunkKind::unobserved, count,
                                schema::CreateSpans(s.builder, start, duration, label));
  set_times(records, count, records[0].start_ns, kEnd, &chunk.header);
  return chunk;
}

EncodedChunk ChunkEncoder::encode(const model::RecordedGap* records, std::size_t count) {
  State& s = *state_;
  s.start();
  s.fill(records, count, kStart);
  const auto start = s.column(Shape::ascending, Expansion::byte_per_value);
  const auto duration = s.column_of(records, count, kDuration);
  const auto device = s.column_of(records, count, [](const auto& g) { return g.device; });
  const auto correlation =
      s.column_of(records, count, [](const auto& g) { return g.closing_correlation; });
  EncodedChunk chunk =
      s.finish(ChunkKind::gaps, count,
               schema::CreateSpans(s.builder, start, duration, 0, 0, 0, device, correlation));
  set_times(records, count, records[0].start_ns, kEnd, &chunk.header);
  return chunk;
}

EncodedChunk ChunkEncoder::encode(const model::ThreadSample* records, std::size_t count) {
  State& s = *state_;
  s.start();
  ChunkDictionary<schema::Sighting> sightings;
  s.key_values.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const model::ThreadSample& r = records[i];
    s.key_values[i] = sightings.id_of(schema::Sighting(
        r.thread, r.stack, r.system_call, static_cast<schema::ThreadActivity>(r.activity),
        static_cast<schema::WaitTarget>(r.target), r.is_child_process, r.has_counts));
  }
  s.fill(records, count, kStart);
  const auto start = s.column(Shape::ascending, Expansion::byte_per_value);
  const auto duration = s.column_of(records, count, kDuration);
  const auto cpu = s.column_of(records, count, [](const auto& r) { return r.cpu_ns; });
  const auto run_queue_wait =
      s.column_of(records, count, [](const auto& r) { return r.run_queue_wait_ns; });
  const auto throttled = s.column_of(records, count, [](const auto& r) { return r.throttled_ns; });
  const auto faults = s.column_of(records, count, [](const auto& r) { return r.major_faults; });
  s.values.assign(s.key_values.begin(), s.key_values.end());
  const auto sighting = s.column();
  const auto rows = s.builder.CreateVectorOfStructs(sightings.rows());
  EncodedChunk chunk = s.finish(ChunkKind::samples, count,
                                schema::CreateSamples(s.builder, rows, start, duration, sighting,
                                                      cpu, run_queue_wait, throttled, faults));
  set_times(records, count, records[0].start_ns, kEnd, &chunk.header);
  return chunk;
}

}  // namespace gpuidle::trace
