// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of ChunkEncoder share: the flatbuffer builder and the way from a member of
// many rows to a column. Included by chunk_encoder_*.cpp alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "libgpuidle/trace/chunk_encoder.h"
#include "libgpuidle/trace/columns.h"
#include "trace_generated.h"

namespace gpuidle::trace {

static_assert(static_cast<int>(Packing::run_length) ==
              static_cast<int>(schema::Packing::run_length));
static_assert(static_cast<int>(Transform::keyed_mean) ==
              static_cast<int>(schema::Transform::keyed_mean));

using ColumnOffset = flatbuffers::Offset<schema::Column>;

/// Planes shorter than this do not pay for statistics of their own (about 100 bytes).
inline constexpr std::size_t kMinSeamBytes = 1024;

struct ChunkEncoder::State {
  flatbuffers::FlatBufferBuilder builder{64 * 1024};
  ColumnEncoder columns;
  std::vector<std::uint64_t> values;
  std::vector<std::uint32_t> key_values, second_key_values;
  /// While building: distances from the end of the buffer, which grows towards its front. After
  /// finish(): offsets.
  std::vector<std::size_t> seams;

  void start() {
    builder.Clear();
    seams.clear();
  }

  /// A column of `values`, or nothing (a null offset) if all of them are 0.
  ColumnOffset column(ColumnEncoder::Shape shape = ColumnEncoder::Shape::any,
                      ColumnEncoder::Expansion expansion = ColumnEncoder::Expansion::free,
                      ColumnKeys keys = {}) {
    if (values.empty()) return 0;
    const ColumnView view = columns.encode(values.data(), values.size(), shape, expansion, keys);
    if (view.packing == Packing::constant && view.base == 0) return 0;
    const auto bytes = view.size_bytes > 0 ? builder.CreateVector(view.bytes, view.size_bytes) : 0;
    add_seams(view);
    return schema::CreateColumn(builder, static_cast<schema::Packing>(view.packing),
                                static_cast<schema::Transform>(view.transform), view.width,
                                view.base, bytes);
  }

  /// Marks where each plane of the vector that was just built begins, and where it ends.
  void add_seams(const ColumnView& view) {
    if (view.packing != Packing::planes || values.size() < kMinSeamBytes) return;
    const std::size_t first_byte = builder.GetSize() - sizeof(flatbuffers::uoffset_t);
    for (std::size_t plane = 0; plane <= view.width; ++plane) {
      seams.push_back(first_byte - plane * values.size());
    }
  }

  /// A column of one member of every row.
  template <typename Row, typename Member>
  ColumnOffset column_of(const Row* rows, std::size_t count, Member member, ColumnKeys keys = {}) {
    fill(rows, count, member);
    return column(ColumnEncoder::Shape::any, ColumnEncoder::Expansion::free, keys);
  }
  /// The first column of a table of rows: never less than a byte per row.
  template <typename Row, typename Member>
  ColumnOffset first_column_of(const Row* rows, std::size_t count, Member member) {
    fill(rows, count, member);
    return column(ColumnEncoder::Shape::any, ColumnEncoder::Expansion::byte_per_value);
  }

  template <typename Row, typename Member>
  void fill(const Row* rows, std::size_t count, Member member) {
    values.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<std::uint64_t>(member(rows[i]));
    }
  }

  template <typename Root>
  EncodedChunk finish(ChunkKind kind, std::size_t record_count, flatbuffers::Offset<Root> root) {
    builder.FinishSizePrefixed(root);
    EncodedChunk chunk;
    chunk.header.kind = kind;
    chunk.header.record_count = static_cast<std::uint32_t>(record_count);
    chunk.bytes = builder.GetBufferPointer();
    chunk.size_bytes = builder.GetSize();
    for (std::size_t& seam : seams) seam = chunk.size_bytes - seam;
    std::sort(seams.begin(), seams.end());
    chunk.seams = &seams;
    return chunk;
  }
};

}  // namespace gpuidle::trace
