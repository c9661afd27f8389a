// SPDX-License-Identifier: Apache-2.0
//
// Facts about the run, dictionary rows, losses and the footer, from their chunks.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "libgpuidle/trace/chunk_decoder.h"
#include "libgpuidle/trace/decoder_state.h"

namespace gpuidle::trace {
namespace {

constexpr char kNotAFlatbuffer[] = "its payload does not verify as a flatbuffer of its kind";

std::string text_of(const flatbuffers::String* text) {
  return text == nullptr ? std::string() : text->str();
}

std::vector<std::string> texts_of(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* texts) {
  std::vector<std::string> all;
  if (texts == nullptr) return all;
  for (const flatbuffers::String* text : *texts) all.push_back(text->str());
  return all;
}

template <typename T>
std::optional<T> optional_of(const flatbuffers::Optional<T>& value) {
  if (!value.has_value()) return std::nullopt;
  return value.value();
}

void add_losses(const flatbuffers::Vector<std::uint64_t>* counts, model::Losses* losses) {
  losses->count = {};
  if (counts == nullptr) return;
  for (flatbuffers::uoffset_t i = 0; i < counts->size(); ++i) {
    // Copied byte by byte: the verifier checks that the vector lies inside the buffer, not that its
    // 64-bit elements are aligned.
    std::uint64_t count = 0;
    std::memcpy(&count, counts->Data() + i * sizeof count, sizeof count);
    // Reasons of a later minor version count as unknown.
    losses->count[i < losses->count.size() ? i : 0] += flatbuffers::EndianScalar(count);
  }
}

// Appends the rows of one tables chunk, in the order in which they may refer to each other.
class TableAppender {
 public:
  TableAppender(std::uint32_t record_count, model::Tables* tables)
      : rows_left_(record_count), tables_(*tables) {}

  std::string append(const schema::Tables& chunk) {
    append(chunk.strings());
    append(chunk.modules());
    append(chunk.frames());
    append(chunk.stacks());
    append(chunk.kernels());
    append(chunk.threads());
    append(chunk.apis());
    append(chunk.devices());
    return source_.take_problem();
  }

 private:
  // False if there is nothing to append, or (with a complaint) if the rows do not follow the ones
  // that are known or are more than the chunk header announced.
  template <typename Rows>
  bool can_append(const Rows* rows, const char* name, std::size_t known) {
    if (!source_.ok() || rows == nullptr || rows->count() == 0) return false;
    if (rows->first_id() != known) {
      source_.complain(std::string("its ") + name + " begin at row " +
                       std::to_string(rows->first_id()) + ", expected " + std::to_string(known));
      return false;
    }
    if (rows->count() > rows_left_) {
      source_.complain(std::string("it has ") + std::to_string(rows->count()) + " " + name +
                       ", expected at most " + std::to_string(rows_left_));
      return false;
    }
    rows_left_ -= rows->count();
    name_ = name;
    count_ = rows->count();
    return true;
  }
  const std::uint64_t* read(std::size_t buffer, const schema::Column* column, std::uint64_t limit) {
    return source_.read(column, name_, count_, limit, buffers_[buffer]);
  }
  const std::uint64_t* read_bounding(std::size_t buffer, const schema::Column* column,
                                     std::uint64_t limit) {
    return source_.read_bounding(column, name_, count_, limit, buffers_[buffer]);
  }
  // Sum of lengths that must be at most `available`; complains and returns false otherwise.
  bool fits(const std::uint64_t* lengths, std::uint64_t available) {
    if (lengths == nullptr) return false;
    std::uint64_t left = available;
    for (std::size_t i = 0; i < count_; ++i) {
      if (lengths[i] > left) {
        source_.complain(std::string("the lengths of its ") + name_ + " exceed the " +
                         std::to_string(available) + " that are there");
        return false;
      }
      left -= lengths[i];
    }
    return true;
  }
  std::uint32_t narrow(std::size_t buffer, std::size_t row) const {
    return static_cast<std::uint32_t>(buffers_[buffer][row]);
  }

  void append(const schema::Strings* rows);
  void append(const schema::Modules* rows);
  void append(const schema::Frames* rows);
  void append(const schema::Stacks* rows);
  void append(const schema::Kernels* rows);
  void append(const schema::Threads* rows);
  void append(const schema::Apis* rows);
  void append(const schema::Devices* rows);

  std::uint32_t rows_left_;
  model::Tables& tables_;
  ColumnSource source_;
  std::array<std::vector<std::uint64_t>, 10> buffers_;
  const char* name_ = "";
  std::size_t count_ = 0;
};

void TableAppender::append(const schema::Strings* rows) {
  if (!can_append(rows, "strings", tables_.strings().size())) return;
  const std::uint64_t* lengths = read_bounding(0, rows->length(), 0);
  const std::size_t available = rows->text() == nullptr ? 0 : rows->text()->size();
  if (!fits(lengths, available)) return;
  const char* next = available == 0 ? "" : reinterpret_cast<const char*>(rows->text()->data());
  for (std::size_t i = 0; i < count_; ++i) {
    tables_.append_string({next, lengths[i]});
    next += lengths[i];
  }
}

void TableAppender::append(const schema::Modules* rows) {
  if (!can_append(rows, "modules", tables_.modules().size())) return;
  read_bounding(0, rows->path(), tables_.strings().size());
  const std::uint64_t* load_bias = read(1, rows->load_bias(), 0);
  const std::uint64_t* begin = read(2, rows->begin_address(), 0);
  const std::uint64_t* end = read(3, rows->end_address(), 0);
  const std::uint64_t* lengths = read(4, rows->build_id_length(), 0);
  const std::size_t available = rows->build_ids() == nullptr ? 0 : rows->build_ids()->size();
  if (!fits(lengths, available)) return;
  const char* next = available == 0 ? "" : reinterpret_cast<const char*>(rows->build_ids()->data());
  for (std::size_t i = 0; i < count_; ++i) {
    model::Module module;
    module.path = narrow(0, i);
    module.build_id.assign(next, lengths[i]);
    module.load_bias = load_bias[i];
    module.begin_address = begin[i];
    module.end_address = end[i];
    next += lengths[i];
    tables_.append(module);
  }
}

void TableAppender::append(const schema::Frames* rows) {
  if (!can_append(rows, "frames", tables_.frames().size())) return;
  const std::uint64_t* address = read_bounding(0, rows->address(), 0);
  read(1, rows->module_id(), tables_.modules().size());
  read(2, rows->function(), tables_.strings().size());
  read(3, rows->file(), tables_.strings().size());
  read(4, rows->line(), kNo32BitValue);
  const std::uint64_t* kind = read(5, rows->kind(), 0);
  if (kind == nullptr) return;
  for (std::size_t i = 0; i < count_; ++i) {
    model::Frame frame;
    frame.address = address[i];
    frame.module = narrow(1, i);
    frame.function = narrow(2, i);
    frame.file = narrow(3, i);
    frame.line = narrow(4, i);
    if (kind[i] <= static_cast<std::uint64_t>(model::Frame::Kind::symbolic)) {
      frame.kind = static_cast<model::Frame::Kind>(kind[i]);
    }
    tables_.append(frame);
  }
}

void TableAppender::append(const schema::Stacks* rows) {
  if (!can_append(rows, "stacks", tables_.stack_count())) return;
  const std::uint64_t* depths = read_bounding(0, rows->depth(), 0);
  const std::size_t available = rows->frame() == nullptr || rows->frame()->bytes() == nullptr
                                    ? 0
                                    : rows->frame()->bytes()->size();
  if (!fits(depths, available)) return;
  const std::uint64_t total = std::accumulate(depths, depths + count_, std::uint64_t{0});
  const std::uint64_t* frames =
      source_.read(rows->frame(), name_, total, tables_.frames().size(), buffers_[1]);
  if (frames == nullptr) return;
  const std::vector<model::FrameId> ids(frames, frames + total);
  std::size_t first = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    tables_.append_stack(ids.data() + first, depths[i]);
    first += depths[i];
  }
}

void TableAppender::append(const schema::Kernels* rows) {
  if (!can_append(rows, "kernels", tables_.kernels().size())) return;
  read_bounding(0, rows->name(), tables_.strings().size());
  const schema::Column* const columns[] = {rows->grid_x(),
                                           rows->grid_y(),
                                           rows->grid_z(),
                                           rows->block_x(),
                                           rows->block_y(),
                                           rows->block_z(),
                                           rows->registers_per_thread(),
                                           rows->static_shared_bytes(),
                                           rows->dynamic_shared_bytes()};
  std::size_t buffer = 1;
  for (const schema::Column* column : columns) read(buffer++, column, kNo32BitValue);
  if (!source_.ok()) return;
  for (std::size_t i = 0; i < count_; ++i) {
    model::Kernel kernel;
    kernel.name = narrow(0, i);
    kernel.grid = {narrow(1, i), narrow(2, i), narrow(3, i)};
    kernel.block = {narrow(4, i), narrow(5, i), narrow(6, i)};
    kernel.registers_per_thread = narrow(7, i);
    kernel.static_shared_bytes = narrow(8, i);
    kernel.dynamic_shared_bytes = narrow(9, i);
    tables_.append(kernel);
  }
}

void TableAppender::append(const schema::Threads* rows) {
  if (!can_append(rows, "threads", tables_.threads().size())) return;
  read_bounding(0, rows->tid(), kNo32BitValue);
  read(1, rows->pid(), kNo32BitValue);
  read(2, rows->name(), tables_.strings().size());
  if (!source_.ok()) return;
  for (std::size_t i = 0; i < count_; ++i) {
    tables_.append(model::Thread{narrow(1, i), narrow(0, i), narrow(2, i)});
  }
}

void TableAppender::append(const schema::Apis* rows) {
  if (!can_append(rows, "apis", tables_.apis().size())) return;
  read_bounding(0, rows->name(), tables_.strings().size());
  const std::uint64_t* role = read(1, rows->role(), 0);
  if (role == nullptr) return;
  for (std::size_t i = 0; i < count_; ++i) {
    model::Api api;
    api.name = narrow(0, i);
    if (role[i] <= static_cast<std::uint64_t>(model::ApiRole::event_wait)) {
      api.role = static_cast<model::ApiRole>(role[i]);
    }
    tables_.append(api);
  }
}

void TableAppender::append(const schema::Devices* rows) {
  // set_device() looks for the ordinal among the rows: quadratic, so hostile numbers of devices
  // would take for ever. No machine has anywhere near this many.
  constexpr std::size_t kMaxDevices = 4096;
  if (!source_.ok() || rows == nullptr || rows->rows() == nullptr) return;
  if (rows->rows()->size() > kMaxDevices) {
    source_.complain("it has " + std::to_string(rows->rows()->size()) +
                     " devices, expected at most " + std::to_string(kMaxDevices));
    return;
  }
  for (const schema::Device* row : *rows->rows()) {
    if (row->name() >= tables_.strings().size() || row->ordinal() >= kMaxDevices) {
      source_.complain("device " + std::to_string(row->ordinal()) + " has name " +
                       std::to_string(row->name()) + ", expected less than " +
                       std::to_string(tables_.strings().size()) + ", and an ordinal below " +
                       std::to_string(kMaxDevices));
      return;
    }
    model::Device device;
    device.ordinal = row->ordinal();
    device.name = row->name();
    device.multiprocessors = row->multiprocessors();
    device.compute_major = row->compute_major();
    device.compute_minor = row->compute_minor();
    device.memory_bytes = row->memory_bytes();
    device.merely_listed = row->merely_listed();
    tables_.set_device(device);
  }
}

}  // namespace

std::string decode_info(const std::uint8_t* bytes, std::size_t size_bytes,
                        model::RecordingInfo* info) {
  const auto* chunk = verified_root<schema::Info>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  info->producer = text_of(chunk->producer());
  info->source = chunk->source() <= schema::Source::imported
                     ? static_cast<model::Source>(chunk->source())
                     : model::Source::unknown;
  info->source_reason = text_of(chunk->source_reason());
  info->detail_level = text_of(chunk->detail_level());
  info->program = text_of(chunk->program());
  info->command = texts_of(chunk->command());
  info->host_name = text_of(chunk->host_name());
  info->pid = chunk->pid();
  info->process_start_ns = optional_of(chunk->process_start_ns());
  info->recording_start_ns = optional_of(chunk->recording_start_ns());
  info->recording_end_ns = optional_of(chunk->recording_end_ns());
  info->realtime_offset_ns = optional_of(chunk->realtime_offset_ns());
  info->rank = optional_of(chunk->rank());
  info->world_size = optional_of(chunk->world_size());
  info->launch_calls = chunk->launch_calls();
  info->warnings = texts_of(chunk->warnings());
  info->settings = texts_of(chunk->settings());
  return {};
}

std::string decode_tables(const std::uint8_t* bytes, std::size_t size_bytes,
                          std::uint32_t record_count, model::Tables* tables) {
  const auto* chunk = verified_root<schema::Tables>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  return TableAppender(record_count, tables).append(*chunk);
}

std::string decode_losses(const std::uint8_t* bytes, std::size_t size_bytes,
                          model::Losses* losses) {
  const auto* chunk = verified_root<schema::Losses>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  add_losses(chunk->count(), losses);
  return {};
}

std::string decode_footer_losses(const std::uint8_t* bytes, std::size_t size_bytes,
                                 model::Losses* losses) {
  const auto* chunk = verified_root<schema::Footer>(bytes, size_bytes);
  if (chunk == nullptr) return kNotAFlatbuffer;
  add_losses(chunk->losses(), losses);
  return {};
}

std::string decode_index(const std::uint8_t* bytes, std::size_t size_bytes,
                         std::vector<ChunkHeader>* chunks) {
  const auto* footer = verified_root<schema::Footer>(bytes, size_bytes);
  if (footer == nullptr) return kNotAFlatbuffer;
  const std::size_t count = footer->chunk_count();
  ColumnSource source;
  std::array<std::vector<std::uint64_t>, 8> columns;
  source.read_bounding(footer->payload_bytes(), "payload_bytes", count, kNo32BitValue, columns[0]);
  source.read(footer->uncompressed_bytes(), "uncompressed_bytes", count, kNo32BitValue, columns[1]);
  source.read(footer->kind(), "kind", count, 1u << 16, columns[2]);
  source.read(footer->flags(), "flags", count, 1u << 16, columns[3]);
  source.read(footer->record_count(), "record_count", count, kNo32BitValue, columns[4]);
  source.read(footer->launch_count(), "launch_count", count, kNo32BitValue, columns[5]);
  source.read(footer->min_start_ns(), "min_start_ns", count, 0, columns[6]);
  source.read(footer->span_ns(), "span_ns", count, 0, columns[7]);
  if (!source.ok()) return source.take_problem();
  chunks->resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    ChunkHeader& header = (*chunks)[i];
    header.payload_bytes = static_cast<std::uint32_t>(columns[0][i]);
    header.uncompressed_bytes = static_cast<std::uint32_t>(columns[1][i]);
    header.kind = static_cast<ChunkKind>(columns[2][i]);
    header.flags = static_cast<std::uint16_t>(columns[3][i]);
    header.record_count = static_cast<std::uint32_t>(columns[4][i]);
    header.launch_count = static_cast<std::uint32_t>(columns[5][i]);
    header.min_start_ns = static_cast<std::int64_t>(columns[6][i]);
    header.max_end_ns = static_cast<std::int64_t>(columns[6][i] + columns[7][i]);
  }
  return {};
}

}  // namespace gpuidle::trace
