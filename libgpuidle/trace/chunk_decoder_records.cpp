// SPDX-License-Identifier: Apache-2.0
//
// RecordDecoder: activities, calls, samples and the four kinds of spans.
#include <algorithm>
#include <limits>

#include "libgpuidle/trace/chunk_decoder.h"
#include "libgpuidle/trace/decoder_state.h"

namespace gpuidle::trace {
namespace {

// A duration below this and a start within kMaxTime_ns add up without overflow.
constexpr std::uint64_t kDurationLimit = std::uint64_t{1} << 62;

constexpr char kNotAFlatbuffer[] = "its payload does not verify as a flatbuffer of its kind";

// Enumerators of a later minor version read as unknown.
template <typename Model, typename Schema>
Model known_or_unknown(Schema value, Model last) {
  const auto number = static_cast<std::uint8_t>(value);
  return number <= static_cast<std::uint8_t>(last) ? static_cast<Model>(number) : Model{};
}

}  // namespace

struct RecordDecoder::State {
  explicit State(const model::Tables& all_tables) : tables(all_tables) {}

  const model::Tables& tables;
  ColumnSource source;
  std::vector<std::uint64_t> start, duration, first, second, third, fourth;
  std::vector<std::uint32_t> keys;
  std::vector<model::DeviceActivity> operations;  ///< one per operation, all but times and lane
  std::vector<model::ApiCall> sites;              ///< one per site, all but times
  std::vector<model::ThreadSample> sightings;     ///< one per sighting, all but times and counts

  bool read_times(const schema::Column* start_column, const schema::Column* duration_column,
                  const ChunkHeader& header, ColumnKeys duration_keys);
  bool check_times(const ChunkHeader& header);
  const std::uint64_t* read_keys(const schema::Column* column, const char* name, std::size_t count,
                                 std::size_t row_count, ColumnKeys* out);
  bool read_operations(const schema::Activities& chunk);
  bool read_sites(const schema::Calls& chunk);
  bool read_sightings(const schema::Samples& chunk);
  std::int64_t start_of(std::size_t i) const { return static_cast<std::int64_t>(start[i]); }
  std::int64_t end_of(std::size_t i) const {
    return static_cast<std::int64_t>(start[i] + duration[i]);
  }
};

bool RecordDecoder::State::read_times(const schema::Column* start_column,
                                      const schema::Column* duration_column,
                                      const ChunkHeader& header, ColumnKeys duration_keys) {
  const std::size_t n = header.record_count;
  source.read_bounding(start_column, "start", n, 0, start);
  source.read(duration_column, "duration", n, kDurationLimit, duration, duration_keys);
  return source.ok() && check_times(header);
}

bool RecordDecoder::State::check_times(const ChunkHeader& header) {
  const std::size_t n = header.record_count;
  if (start_of(0) != header.min_start_ns) {
    source.complain("its first record starts at " + std::to_string(start_of(0)) + " ns, expected " +
                    std::to_string(header.min_start_ns));
    return false;
  }
  bool is_sorted = true;
  for (std::size_t i = 1; i < n; ++i) is_sorted &= start_of(i - 1) <= start_of(i);
  if (!is_sorted || start_of(n - 1) > kMaxTime_ns) {
    source.complain("its records do not ascend in time");
    return false;
  }
  std::int64_t last_end_ns = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < n; ++i) last_end_ns = std::max(last_end_ns, end_of(i));
  if (last_end_ns != header.max_end_ns) {
    source.complain("its last record ends at " + std::to_string(last_end_ns) + " ns, expected " +
                    std::to_string(header.max_end_ns));
    return false;
  }
  return true;
}

const std::uint64_t* RecordDecoder::State::read_keys(const schema::Column* column, const char* name,
                                                     std::size_t count, std::size_t row_count,
                                                     ColumnKeys* out) {
  if (row_count == 0) source.complain(std::string("it has no rows for column ") + name);
  const std::uint64_t* values = source.read(column, name, count, row_count, fourth);
  if (values == nullptr) return nullptr;
  keys.resize(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = static_cast<std::uint32_t>(values[i]);
  *out = {keys.data(), row_count};
  return values;
}

bool RecordDecoder::State::read_operations(const schema::Activities& chunk) {
  operations.clear();
  if (chunk.operations() == nullptr) return true;
  for (const schema::Operation* row : *chunk.operations()) {
    if (row->kernel() >= tables.kernels().size() || row->name() >= tables.strings().size()) {
      source.complain("an activity names kernel " + std::to_string(row->kernel()) + " and string " +
                      std::to_string(row->name()) + ", expected less than " +
                      std::to_string(tables.kernels().size()) + " and " +
                      std::to_string(tables.strings().size()));
      return false;
    }
    model::DeviceActivity activity;
    activity.kernel = row->kernel();
    activity.name = row->name();
    activity.kind = known_or_unknown(row->kind(), model::ActivityKind::graph);
    activity.copy = known_or_unknown(row->copy(), model::CopyKind::peer);
    activity.source = known_or_unknown(row->source(), model::MemoryKind::managed_static);
    activity.destination = known_or_unknown(row->destination(), model::MemoryKind::managed_static);
    activity.is_async = row->is_async();
    operations.push_back(activity);
  }
  return true;
}

bool RecordDecoder::State::read_sites(const schema::Calls& chunk) {
  sites.clear();
  if (chunk.sites() == nullptr) return true;
  for (const schema::Site* row : *chunk.sites()) {
    if (row->thread() >= tables.threads().size() || row->api() >= tables.apis().size() ||
        row->stack() >= tables.stack_count()) {
      source.complain("a call names thread " + std::to_string(row->thread()) + ", api " +
                      std::to_string(row->api()) + " and stack " + std::to_string(row->stack()) +
                      ", expected less than " + std::to_string(tables.threads().size()) + ", " +
                      std::to_string(tables.apis().size()) + " and " +
                      std::to_string(tables.stack_count()));
      return false;
    }
    model::ApiCall call;
    call.thread = row->thread();
    call.api = row->api();
    call.stack = row->stack();
    call.result = row->result();
    call.role = known_or_unknown(row->role(), model::ApiRole::event_wait);
    sites.push_back(call);
  }
  return true;
}

bool RecordDecoder::State::read_sightings(const schema::Samples& chunk) {
  sightings.clear();
  if (chunk.sightings() == nullptr) return true;
  for (const schema::Sighting* row : *chunk.sightings()) {
    if (row->thread() >= tables.threads().size() || row->stack() >= tables.stack_count()) {
      source.complain("a sample names thread " + std::to_string(row->thread()) + " and stack " +
                      std::to_string(row->stack()) + ", expected less than " +
                      std::to_string(tables.threads().size()) + " and " +
                      std::to_string(tables.stack_count()));
      return false;
    }
    model::ThreadSample sample;
    sample.thread = row->thread();
    sample.stack = row->stack();
    sample.system_call = row->system_call();
    sample.activity = known_or_unknown(row->activity(), model::ThreadActivity::ended);
    sample.target = known_or_unknown(row->target(), model::WaitTarget::page_fault);
    sample.is_child_process = row->is_child_process();
    sample.has_counts = row->has_counts();
    sightings.push_back(sample);
  }
  return true;
}

RecordDecoder::RecordDecoder(const model::Tables& tables)
    : state_(std::make_unique<State>(tables)) {}
RecordDecoder::~RecordDecoder() = default;

std::string RecordDecoder::append(const ChunkHeader& header, const std::uint8_t* bytes,
                                  std::size_t size_bytes, std::vector<model::DeviceActivity>* out) {
  State& s = *state_;
  const auto* chunk = verified_root<schema::Activities>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  const std::size_t n = header.record_count;
  if (n == 0) return {};
  const std::size_t lane_count = chunk->lanes() == nullptr ? 0 : chunk->lanes()->size();
  s.read_operations(*chunk);
  // Three columns by key, in an order that lets one buffer of keys serve for each.
  ColumnKeys by_lane, by_operation;
  s.read_keys(chunk->lane(), "lane", n, lane_count, &by_lane);
  s.source.read(chunk->correlation(), "correlation", n, kNo32BitValue, s.first, by_lane);
  s.second.swap(s.fourth);  // the lanes
  s.read_keys(chunk->operation(), "operation", n, s.operations.size(), &by_operation);
  s.read_times(chunk->start(), chunk->duration(), header, by_operation);
  const std::uint64_t* volume =
      chunk->bytes() == nullptr ? nullptr : s.source.read(chunk->bytes(), "bytes", n, 0, s.third);
  if (!s.source.ok()) return s.source.take_problem();

  const std::size_t before = out->size();
  out->resize(before + n);
  model::DeviceActivity* rows = out->data() + before;
  const auto& lanes = *chunk->lanes();
  for (std::size_t i = 0; i < n; ++i) {
    const schema::Lane& lane = *lanes[static_cast<flatbuffers::uoffset_t>(s.second[i])];
    model::DeviceActivity& row = rows[i];
    row = s.operations[s.keys[i]];
    row.start_ns = s.start_of(i);
    row.end_ns = s.end_of(i);
    row.device = lane.device();
    row.context = lane.context();
    row.stream = lane.stream();
    row.correlation = static_cast<std::uint32_t>(s.first[i]);
  }
  if (volume != nullptr) {
    for (std::size_t i = 0; i < n; ++i) rows[i].bytes = volume[i];
  }
  if (chunk->graph() != nullptr) {
    const std::uint64_t* graph = s.source.read(chunk->graph(), "graph", n, kNo32BitValue, s.third);
    if (graph == nullptr) {
      out->resize(before);
      return s.source.take_problem();
    }
    for (std::size_t i = 0; i < n; ++i) rows[i].graph = static_cast<std::uint32_t>(graph[i]);
  }
  return {};
}

std::string RecordDecoder::append(const ChunkHeader& header, const std::uint8_t* bytes,
                                  std::size_t size_bytes, std::vector<model::ApiCall>* out) {
  State& s = *state_;
  const auto* chunk = verified_root<schema::Calls>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  const std::size_t n = header.record_count;
  if (n == 0) return {};
  s.read_sites(*chunk);
  ColumnKeys by_site;
  s.read_keys(chunk->site(), "site", n, s.sites.size(), &by_site);
  s.read_times(chunk->enter(), chunk->duration(), header, by_site);
  s.source.read(chunk->correlation(), "correlation", n, kNo32BitValue, s.first);
  if (!s.source.ok()) return s.source.take_problem();

  const std::size_t before = out->size();
  out->resize(before + n);
  model::ApiCall* rows = out->data() + before;
  for (std::size_t i = 0; i < n; ++i) {
    model::ApiCall& row = rows[i];
    row = s.sites[s.keys[i]];
    row.enter_ns = s.start_of(i);
    row.exit_ns = s.end_of(i);
    row.correlation = static_cast<std::uint32_t>(s.first[i]);
  }
  return {};
}

std::string RecordDecoder::append(const ChunkHeader& header, const std::uint8_t* bytes,
                                  std::size_t size_bytes, std::vector<model::Marker>* out) {
  State& s = *state_;
  const auto* chunk = verified_root<schema::Spans>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  const std::size_t n = header.record_count;
  if (n == 0) return {};
  s.read_times(chunk->start(), chunk->duration(), header, {});
  const auto* label = s.source.read(chunk->label(), "label", n, s.tables.strings().size(), s.first);
  const auto* thread =
      s.source.read(chunk->thread(), "thread", n, s.tables.threads().size(), s.second);
  const auto* variety = s.source.read(chunk->variety(), "variety", n, 256, s.third);
  if (!s.source.ok()) return s.source.take_problem();
  for (std::size_t i = 0; i < n; ++i) {
    out->push_back({s.start_of(i), s.end_of(i), static_cast<model::StringId>(label[i]),
                    static_cast<model::ThreadId>(thread[i]),
                    known_or_unknown(variety[i], model::Marker::Kind::step)});
  }
  return {};
}

std::string RecordDecoder::append(const ChunkHeader& header, const std::uint8_t* bytes,
                                  std::size_t size_bytes, std::vector<model::Overhead>* out) {
  State& s = *state_;
  const auto* chunk = verified_root<schema::Spans>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  const std::size_t n = header.record_count;
  if (n == 0) return {};
  s.read_times(chunk->start(), chunk->duration(), header, {});
  const auto* label = s.source.read(chunk->label(), "label", n, s.tables.strings().size(), s.first);
  const auto* thread =
      s.source.read(chunk->thread(), "thread", n, s.tables.threads().size(), s.second);
  const auto* variety = s.source.read(chunk->variety(), "variety", n, 256, s.third);
  if (!s.source.ok()) return s.source.take_problem();
  for (std::size_t i = 0; i < n; ++i) {
    out->push_back({s.start_of(i), s.end_of(i), static_cast<model::ThreadId>(thread[i]),
                    static_cast<model::StringId>(label[i]), variety[i] == 1});
  }
  return {};
}

std::string RecordDecoder::append(const ChunkHeader& header, const std::uint8_t* bytes,
                                  std::size_t size_bytes, std::vector<model::Unobserved>* out) {
  State& s = *state_;
  const auto* chunk = verified_root<schema::Spans>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  const std::size_t n = header.record_count;
  if (n == 0) return {};
  s.read_times(chunk->start(), chunk->duration(), header, {});
  const auto* label = s.source.read(chunk->label(), "label", n, s.tables.strings().size(), s.first);
  if (!s.source.ok()) return s.source.take_problem();
  for (std::size_t i = 0; i < n; ++i) {
    out->push_back({s.start_of(i), s.end_of(i), static_cast<model::StringId>(label[i])});
  }
  return {};
}

std::string RecordDecoder::append(const ChunkHeader& header, const std::uint8_t* bytes,
                                  std::size_t size_bytes, std::vector<model::RecordedGap>* out) {
  State& s = *state_;
  const auto* chunk = verified_root<schema::Spans>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  const std::size_t n = header.record_count;
  if (n == 0) return {};
  s.read_times(chunk->start(), chunk->duration(), header, {});
  const auto* device = s.source.read(chunk->device(), "device", n, kNo32BitValue, s.first);
  const auto* correlation =
      s.source.read(chunk->correlation(), "correlation", n, kNo32BitValue, s.second);
  if (!s.source.ok()) return s.source.take_problem();
  for (std::size_t i = 0; i < n; ++i) {
    out->push_back({s.start_of(i), s.end_of(i), static_cast<std::uint32_t>(device[i]),
                    static_cast<std::uint32_t>(correlation[i])});
  }
  return {};
}

std::string RecordDecoder::append(const ChunkHeader& header, const std::uint8_t* bytes,
                                  std::size_t size_bytes, std::vector<model::ThreadSample>* out) {
  State& s = *state_;
  const auto* chunk = verified_root<schema::Samples>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  const std::size_t n = header.record_count;
  if (n == 0) return {};
  s.read_sightings(*chunk);
  ColumnKeys by_sighting;
  s.read_keys(chunk->sighting(), "sighting", n, s.sightings.size(), &by_sighting);
  s.read_times(chunk->start(), chunk->duration(), header, {});
  const auto* cpu = s.source.read(chunk->cpu(), "cpu", n, 0, s.first);
  const auto* wait = s.source.read(chunk->run_queue_wait(), "run_queue_wait", n, 0, s.second);
  const auto* throttled = s.source.read(chunk->throttled(), "throttled", n, 0, s.third);
  const auto* faults =
      s.source.read(chunk->major_faults(), "major_faults", n, kNo32BitValue, s.fourth);
  if (!s.source.ok()) return s.source.take_problem();
  for (std::size_t i = 0; i < n; ++i) {
    model::ThreadSample& sample = out->emplace_back(s.sightings[s.keys[i]]);
    sample.start_ns = s.start_of(i);
    sample.end_ns = s.end_of(i);
    sample.cpu_ns = cpu[i];
    sample.run_queue_wait_ns = wait[i];
    sample.throttled_ns = throttled[i];
    sample.major_faults = static_cast<std::uint32_t>(faults[i]);
  }
  return {};
}

}  // namespace gpuidle::trace
