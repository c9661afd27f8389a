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
static_assert(static_cast<int>(Transform::keyed_delta) ==
              static_cast<int>(schema::Transform::keyed_delta));

using ColumnOffset = flatbuffers::Offset<schema::Column>;

struct ChunkEncoder::State {
  flatbuffers::FlatBufferBuilder builder{64 * 1024};
  ColumnEncoder columns;
  std::vector<std::uint64_t> values;
  std::vector<std::uint32_t> key_values, second_key_values;

  /// A column of `values`, or nothing (a null offset) if all of them are 0.
  ColumnOffset column(ColumnEncoder::Shape shape = ColumnEncoder::Shape::any,
                      ColumnEncoder::Expansion expansion = ColumnEncoder::Expansion::free,
                      ColumnKeys keys = {}) {
    if (values.empty()) return 0;
    const ColumnView view = columns.encode(values.data(), values.size(), shape, expansion, keys);
    if (view.packing == Packing::constant && view.base == 0) return 0;
    const auto bytes = view.size_bytes > 0 ? builder.CreateVector(view.bytes, view.size_bytes) : 0;
    return schema::CreateColumn(builder, static_cast<schema::Packing>(view.packing),
                                static_cast<schema::Transform>(view.transform), view.width,
                                view.base, bytes);
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
    return chunk;
  }
};

}  // namespace gpuidle::trace
