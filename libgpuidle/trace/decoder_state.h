// SPDX-License-Identifier: Apache-2.0
//
// What the decoders of records and of dictionary rows share: a verified root, and the way from a
// column of the schema to checked values. Included by chunk_decoder_*.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libgpuidle/trace/columns.h"
#include "trace_generated.h"

namespace gpuidle::trace {

/// One more than the largest 32-bit value: the limit of columns that hold 32-bit numbers.
inline constexpr std::uint64_t kNo32BitValue = std::uint64_t{1} << 32;

/// The root of a size-prefixed flatbuffer, or nullptr if the bytes are not one.
template <typename Root>
const Root* verified_root(const std::uint8_t* bytes, std::size_t size_bytes) {
  if (size_bytes < sizeof(flatbuffers::uoffset_t)) return nullptr;
  if (flatbuffers::GetPrefixedSize(bytes) != size_bytes - sizeof(flatbuffers::uoffset_t)) {
    return nullptr;
  }
  // No chunk kind nests deeper than five tables or has more of them than bytes / 4.
  flatbuffers::Verifier verifier(bytes, size_bytes, 8,
                                 static_cast<flatbuffers::uoffset_t>(size_bytes / 4 + 1));
  if (!verifier.VerifySizePrefixedBuffer<Root>(nullptr)) return nullptr;
  return flatbuffers::GetSizePrefixedRoot<Root>(bytes);
}

/// Decodes columns one after the other and keeps the first complaint.
class ColumnSource {
 public:
  /// The values of a column, `count` of them; all zeros without a column. nullptr on failure (and
  /// for every later call). Values must be below `limit` (0: any). Valid until `buffer` changes.
  const std::uint64_t* read(const schema::Column* column, const char* name, std::size_t count,
                            std::uint64_t limit, std::vector<std::uint64_t>& buffer,
                            ColumnKeys keys = {}) {
    if (!problem_.empty()) return nullptr;
    buffer.resize(count);
    if (column == nullptr) {
      std::fill(buffer.begin(), buffer.end(), 0);
      return buffer.data();
    }
    ColumnView view;
    view.packing = static_cast<Packing>(column->packing());
    view.transform = static_cast<Transform>(column->transform());
    view.width = column->width();
    view.base = column->base();
    if (column->bytes() != nullptr) {
      view.bytes = column->bytes()->data();
      view.size_bytes = column->bytes()->size();
    }
    if (const char* problem = decoder_.decode(view, count, keys, buffer.data())) {
      complain(std::string("column ") + name + " " + problem);
      return nullptr;
    }
    if (limit != 0 && !check_below(limit, name, buffer)) return nullptr;
    return buffer.data();
  }

  /// As read(), for a column that must spend at least a byte per value: what bounds the rows.
  const std::uint64_t* read_bounding(const schema::Column* column, const char* name,
                                     std::size_t count, std::uint64_t limit,
                                     std::vector<std::uint64_t>& buffer) {
    const std::size_t size =
        column == nullptr || column->bytes() == nullptr ? 0 : column->bytes()->size();
    if (size < count) {
      complain(std::string("column ") + name + " has " + std::to_string(size) + " bytes for " +
               std::to_string(count) + " rows, expected at least one byte per row");
      return nullptr;
    }
    return read(column, name, count, limit, buffer);
  }

  /// Keeps the first complaint.
  void complain(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  bool ok() const { return problem_.empty(); }
  std::string take_problem() { return std::exchange(problem_, std::string()); }

 private:
  bool check_below(std::uint64_t limit, const char* name,
                   const std::vector<std::uint64_t>& values) {
    std::uint64_t all = 0;
    for (const std::uint64_t value : values) all |= value;
    if (all < limit) return true;  // the usual case, without a comparison per value
    for (const std::uint64_t value : values) {
      if (value < limit) continue;
      complain(std::string("column ") + name + " holds " + std::to_string(value) +
               ", expected less than " + std::to_string(limit));
      return false;
    }
    return true;
  }

  ColumnDecoder decoder_;
  std::string problem_;
};

}  // namespace gpuidle::trace
