// SPDX-License-Identifier: Apache-2.0
//
// ChunkEncoder, the rest: facts about the run, dictionary rows, losses and the footer.
#include <string>

#include "libgpuidle/trace/encoder_state.h"

namespace gpuidle::trace {
namespace {

// A chunk of table rows is closed when it holds about this much, so that a reader never needs more
// than that at once; a single longer string still fits (kMaxChunkBytes).
constexpr std::size_t kTextBytesPerChunk = 1u << 20;
constexpr std::size_t kRowsPerChunk = 64 * 1024;
constexpr std::size_t kStackFramesPerChunk = 256 * 1024;

using Expansion = ColumnEncoder::Expansion;
using Shape = ColumnEncoder::Shape;
template <typename T>
using Offset = flatbuffers::Offset<T>;

// The next rows of one dictionary: [first, first + count).
struct RowRange {
  std::size_t first;
  std::size_t count;
};

RowRange next_rows(std::size_t size, std::size_t* progress) {
  const RowRange range{*progress, std::min(size - std::min(size, *progress), kRowsPerChunk)};
  *progress += range.count;
  return range;
}

Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> strings_of(
    flatbuffers::FlatBufferBuilder& builder, const std::vector<std::string>& strings) {
  if (strings.empty()) return 0;
  return builder.CreateVectorOfStrings(strings);
}

Offset<flatbuffers::String> string_of(flatbuffers::FlatBufferBuilder& builder,
                                      const std::string& text) {
  if (text.empty()) return 0;
  return builder.CreateString(text);
}

template <typename T>
flatbuffers::Optional<T> optional_of(const std::optional<T>& value) {
  if (!value) return flatbuffers::nullopt;
  return *value;
}

}  // namespace

ChunkEncoder::ChunkEncoder() : state_(std::make_unique<State>()) {}
ChunkEncoder::~ChunkEncoder() = default;

EncodedChunk ChunkEncoder::encode(const model::RecordingInfo& info) {
  State& s = *state_;
  s.start();
  const auto producer = string_of(s.builder, info.producer);
  const auto source_reason = string_of(s.builder, info.source_reason);
  const auto detail_level = string_of(s.builder, info.detail_level);
  const auto program = string_of(s.builder, info.program);
  const auto command = strings_of(s.builder, info.command);
  const auto host_name = string_of(s.builder, info.host_name);
  const auto warnings = strings_of(s.builder, info.warnings);
  const auto settings = strings_of(s.builder, info.settings);
  return s.finish(
      ChunkKind::info, 0,
      schema::CreateInfo(s.builder, producer, static_cast<schema::Source>(info.source),
                         source_reason, detail_level, program, command, host_name, info.pid,
                         optional_of(info.process_start_ns), optional_of(info.recording_start_ns),
                         optional_of(info.recording_end_ns), optional_of(info.realtime_offset_ns),
                         optional_of(info.rank), optional_of(info.world_size), info.launch_calls,
                         warnings, settings));
}

EncodedChunk ChunkEncoder::encode(const model::Losses& losses) {
  State& s = *state_;
  s.start();
  const auto count = s.builder.CreateVector(losses.count.data(), losses.count.size());
  return s.finish(ChunkKind::losses, 0, schema::CreateLosses(s.builder, count));
}

namespace {

Offset<schema::Strings> encode_strings(ChunkEncoder::State& s, const model::Tables& tables,
                                       std::size_t* progress) {
  const auto& all = tables.strings();
  const std::size_t first = *progress;
  std::string text;
  s.values.clear();
  for (; *progress < all.size() && s.values.size() < kRowsPerChunk; ++*progress) {
    const std::string& row = all[*progress];
    if (!text.empty() && text.size() + row.size() > kTextBytesPerChunk) break;
    text += row;
    s.values.push_back(row.size());
  }
  const auto count = static_cast<std::uint32_t>(s.values.size());
  if (count == 0) return 0;
  const auto length = s.column(Shape::any, Expansion::byte_per_value);
  const auto bytes =
      s.builder.CreateVector(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return schema::CreateStrings(s.builder, static_cast<std::uint32_t>(first), count, length, bytes);
}

Offset<schema::Modules> encode_modules(ChunkEncoder::State& s, const model::Tables& tables,
                                       std::size_t* progress) {
  const RowRange range = next_rows(tables.modules().size(), progress);
  if (range.count == 0) return 0;
  const model::Module* rows = tables.modules().data() + range.first;
  std::string build_ids;
  for (std::size_t i = 0; i < range.count; ++i) build_ids += rows[i].build_id;
  const auto path = s.first_column_of(rows, range.count, [](const auto& m) { return m.path; });
  const auto load_bias = s.column_of(rows, range.count, [](const auto& m) { return m.load_bias; });
  const auto begin = s.column_of(rows, range.count, [](const auto& m) { return m.begin_address; });
  const auto end = s.column_of(rows, range.count, [](const auto& m) { return m.end_address; });
  const auto length =
      s.column_of(rows, range.count, [](const auto& m) { return m.build_id.size(); });
  const auto bytes = s.builder.CreateVector(reinterpret_cast<const std::uint8_t*>(build_ids.data()),
                                            build_ids.size());
  return schema::CreateModules(s.builder, static_cast<std::uint32_t>(range.first),
                               static_cast<std::uint32_t>(range.count), path, load_bias, begin, end,
                               length, bytes);
}

Offset<schema::Frames> encode_frames(ChunkEncoder::State& s, const model::Tables& tables,
                                     std::size_t* progress) {
  const RowRange range = next_rows(tables.frames().size(), progress);
  if (range.count == 0) return 0;
  const model::Frame* rows = tables.frames().data() + range.first;
  const auto address =
      s.first_column_of(rows, range.count, [](const auto& f) { return f.address; });
  const auto module = s.column_of(rows, range.count, [](const auto& f) { return f.module; });
  const auto function = s.column_of(rows, range.count, [](const auto& f) { return f.function; });
  const auto file = s.column_of(rows, range.count, [](const auto& f) { return f.file; });
  const auto line = s.column_of(rows, range.count, [](const auto& f) { return f.line; });
  const auto kind = s.column_of(rows, range.count, [](const auto& f) { return f.kind; });
  return schema::CreateFrames(s.builder, static_cast<std::uint32_t>(range.first),
                              static_cast<std::uint32_t>(range.count), address, module, function,
                              file, line, kind);
}

Offset<schema::Stacks> encode_stacks(ChunkEncoder::State& s, const model::Tables& tables,
                                     std::size_t* progress) {
  const std::size_t first = *progress;
  std::vector<std::uint64_t> depths;
  s.values.clear();
  while (*progress < tables.stack_count() && depths.size() < kRowsPerChunk &&
         s.values.size() < kStackFramesPerChunk) {
    std::size_t depth = 0;
    const model::FrameId* frames = tables.stack(static_cast<model::StackId>(*progress), &depth);
    s.values.insert(s.values.end(), frames, frames + depth);
    depths.push_back(depth);
    ++*progress;
  }
  if (depths.empty()) return 0;
  const auto count = static_cast<std::uint32_t>(depths.size());
  const auto frame = s.column(Shape::any, Expansion::byte_per_value);
  s.values.swap(depths);
  const auto depth = s.column(Shape::any, Expansion::byte_per_value);
  return schema::CreateStacks(s.builder, static_cast<std::uint32_t>(first), count, depth, frame);
}

Offset<schema::Kernels> encode_kernels(ChunkEncoder::State& s, const model::Tables& tables,
                                       std::size_t* progress) {
  const RowRange range = next_rows(tables.kernels().size(), progress);
  if (range.count == 0) return 0;
  const model::Kernel* rows = tables.kernels().data() + range.first;
  const std::size_t n = range.count;
  const auto name = s.first_column_of(rows, n, [](const auto& k) { return k.name; });
  const auto grid_x = s.column_of(rows, n, [](const auto& k) { return k.grid[0]; });
  const auto grid_y = s.column_of(rows, n, [](const auto& k) { return k.grid[1]; });
  const auto grid_z = s.column_of(rows, n, [](const auto& k) { return k.grid[2]; });
  const auto block_x = s.column_of(rows, n, [](const auto& k) { return k.block[0]; });
  const auto block_y = s.column_of(rows, n, [](const auto& k) { return k.block[1]; });
  const auto block_z = s.column_of(rows, n, [](const auto& k) { return k.block[2]; });
  const auto registers = s.column_of(rows, n, [](const auto& k) { return k.registers_per_thread; });
  const auto static_bytes =
      s.column_of(rows, n, [](const auto& k) { return k.static_shared_bytes; });
  const auto dynamic_bytes =
      s.column_of(rows, n, [](const auto& k) { return k.dynamic_shared_bytes; });
  return schema::CreateKernels(s.builder, static_cast<std::uint32_t>(range.first),
                               static_cast<std::uint32_t>(n), name, grid_x, grid_y, grid_z, block_x,
                               block_y, block_z, registers, static_bytes, dynamic_bytes);
}

Offset<schema::Threads> encode_threads(ChunkEncoder::State& s, const model::Tables& tables,
                                       std::size_t* progress) {
  const RowRange range = next_rows(tables.threads().size(), progress);
  if (range.count == 0) return 0;
  const model::Thread* rows = tables.threads().data() + range.first;
  const auto tid = s.first_column_of(rows, range.count, [](const auto& t) { return t.tid; });
  const auto pid = s.column_of(rows, range.count, [](const auto& t) { return t.pid; });
  const auto name = s.column_of(rows, range.count, [](const auto& t) { return t.name; });
  return schema::CreateThreads(s.builder, static_cast<std::uint32_t>(range.first),
                               static_cast<std::uint32_t>(range.count), tid, pid, name);
}

Offset<schema::Apis> encode_apis(ChunkEncoder::State& s, const model::Tables& tables,
                                 std::size_t* progress) {
  const RowRange range = next_rows(tables.apis().size(), progress);
  if (range.count == 0) return 0;
  const model::Api* rows = tables.apis().data() + range.first;
  const auto name = s.first_column_of(rows, range.count, [](const auto& a) { return a.name; });
  const auto role = s.column_of(rows, range.count, [](const auto& a) { return a.role; });
  return schema::CreateApis(s.builder, static_cast<std::uint32_t>(range.first),
                            static_cast<std::uint32_t>(range.count), name, role);
}

Offset<schema::Devices> encode_devices(ChunkEncoder::State& s, const model::Tables& tables) {
  std::vector<Offset<schema::Device>> rows;
  for (const model::Device& d : tables.devices()) {
    rows.push_back(schema::CreateDevice(s.builder, d.ordinal, d.name, d.multiprocessors,
                                        d.compute_major, d.compute_minor, d.memory_bytes,
                                        d.merely_listed));
  }
  return schema::CreateDevices(s.builder, s.builder.CreateVector(rows));
}

}  // namespace

EncodedChunk ChunkEncoder::encode_tables(const model::Tables& tables, bool with_devices,
                                         TableProgress* progress) {
  State& s = *state_;
  s.start();
  const TableProgress before = *progress;
  const auto strings = encode_strings(s, tables, &progress->strings);
  Offset<schema::Modules> modules;
  Offset<schema::Frames> frames;
  Offset<schema::Stacks> stacks;
  Offset<schema::Kernels> kernels;
  Offset<schema::Threads> threads;
  Offset<schema::Apis> apis;
  Offset<schema::Devices> devices;
  // A table waits until all rows of those it refers to are in the file or in this very chunk.
  if (progress->strings == tables.strings().size()) {
    modules = encode_modules(s, tables, &progress->modules);
    if (progress->modules == tables.modules().size()) {
      frames = encode_frames(s, tables, &progress->frames);
    }
    if (progress->frames == tables.frames().size()) {
      stacks = encode_stacks(s, tables, &progress->stacks);
    }
    kernels = encode_kernels(s, tables, &progress->kernels);
    threads = encode_threads(s, tables, &progress->threads);
    apis = encode_apis(s, tables, &progress->apis);
    if (with_devices) devices = encode_devices(s, tables);
  }
  const auto rows_of = [](const TableProgress& p) {
    return p.strings + p.modules + p.frames + p.stacks + p.kernels + p.threads + p.apis;
  };
  return s.finish(ChunkKind::tables, rows_of(*progress) - rows_of(before),
                  schema::CreateTables(s.builder, strings, modules, frames, stacks, kernels,
                                       threads, apis, devices));
}

bool ChunkEncoder::is_complete(const model::Tables& tables, const TableProgress& progress) {
  return progress.strings == tables.strings().size() &&
         progress.modules == tables.modules().size() && progress.frames == tables.frames().size() &&
         progress.stacks == tables.stack_count() && progress.kernels == tables.kernels().size() &&
         progress.threads == tables.threads().size() && progress.apis == tables.apis().size();
}

EncodedChunk ChunkEncoder::encode_footer(const model::Losses& losses, const ChunkHeader* chunks,
                                         std::size_t chunk_count) {
  State& s = *state_;
  s.start();
  const auto count = s.builder.CreateVector(losses.count.data(), losses.count.size());
  ColumnOffset payload, uncompressed, kind, flags, records, launches, min_start, span;
  if (chunk_count > 0) {
    const auto column = [&](auto member) { return s.column_of(chunks, chunk_count, member); };
    payload = s.first_column_of(chunks, chunk_count, [](const auto& c) { return c.payload_bytes; });
    uncompressed = column([](const auto& c) { return c.uncompressed_bytes; });
    kind = column([](const auto& c) { return c.kind; });
    flags = column([](const auto& c) { return c.flags; });
    records = column([](const auto& c) { return c.record_count; });
    launches = column([](const auto& c) { return c.launch_count; });
    min_start = column([](const auto& c) { return c.min_start_ns; });
    span = column([](const auto& c) { return c.max_end_ns - c.min_start_ns; });
  }
  return s.finish(
      ChunkKind::footer, 0,
      schema::CreateFooter(s.builder, count, static_cast<std::uint32_t>(chunk_count), payload,
                           uncompressed, kind, flags, records, launches, min_start, span));
}

}  // namespace gpuidle::trace
