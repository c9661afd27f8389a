// SPDX-License-Identifier: Apache-2.0
//
// One column of a chunk: how a run of 64-bit values becomes few bytes and back. A transform takes
// out what the value before (or the last one with the same key) already told; a packing stores
// what is left. Used by the chunk encoders of the writer and the decoders of the reader; knows
// nothing of flatbuffers. schemas/README.md specifies both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuidle::trace {

/// Values of the schema's Packing and Transform.
enum class Packing : std::uint8_t { unknown = 0, constant = 1, planes = 2, run_length = 3 };
enum class Transform : std::uint8_t {
  unknown = 0,
  none = 1,
  delta = 2,
  zigzag_delta = 3,
  keyed_delta = 4,
  keyed_mean = 5,
};

/// A column as it lies in a chunk; `bytes` belongs to the chunk.
struct ColumnView {
  Packing packing = Packing::constant;
  Transform transform = Transform::none;
  std::uint8_t width = 0;  ///< planes: bytes per value, 0 to 8
  std::uint64_t base = 0;
  const std::uint8_t* bytes = nullptr;
  std::size_t size_bytes = 0;
};

/// Small integers, one per value, that say which values resemble each other.
struct ColumnKeys {
  const std::uint32_t* keys = nullptr;  ///< each below `key_count`
  std::size_t key_count = 0;
};

/// What Transform::keyed_mean expects of the next value with the same key: durations of one kernel
/// scatter around a mean, and half a bit is lost by comparing each with the one before. A value
/// moves the mean by a quarter of its distance, at most by a 16th of the mean, so that a rare
/// slow one does not spoil the next ten.
class RunningMean {
 public:
  /// Before the first value: `base`.
  explicit RunningMean(std::uint64_t base) : mean_(base) {}
  std::uint64_t expected() const { return mean_; }
  void add(std::uint64_t value) {
    if (!has_values_) {
      mean_ = value;
      has_values_ = true;
      return;
    }
    const std::uint64_t limit = (mean_ >> 4) + 1;
    if (value >= mean_) {
      const std::uint64_t step = (value - mean_) >> 2;
      mean_ += step < limit ? step : limit;
    } else {
      const std::uint64_t step = (mean_ - value) >> 2;
      mean_ -= step < limit ? step : limit;
    }
  }

 private:
  std::uint64_t mean_;
  bool has_values_ = false;
};

/// Packs columns. Buffers are kept from call to call. Not thread-safe. Context: drain | tool.
class ColumnEncoder {
 public:
  /// What the caller knows about a column.
  enum class Shape {
    any,        ///< the cheapest of all transforms
    ascending,  ///< no value is below the one before it: plain deltas
  };
  /// How far a reader may have to expand the bytes.
  enum class Expansion {
    free,            ///< any packing
    byte_per_value,  ///< at least one byte per value: this column bounds the number of records
  };

  /// Encodes `count` > 0 values. The view is valid until the next call. Without keys
  /// the keyed transforms are not considered.
  ColumnView encode(const std::uint64_t* values, std::size_t count, Shape shape,
                    Expansion expansion, ColumnKeys keys = {});

 private:
  struct Candidate {
    Transform transform;
    std::uint64_t base;
  };
  void transform(const std::uint64_t* values, std::size_t count, Candidate candidate,
                 ColumnKeys keys, std::vector<std::uint64_t>& out);
  void pack_planes(std::size_t count, std::uint8_t width);
  void pack_runs(std::size_t count);

  std::vector<std::uint64_t> best_;
  std::vector<std::uint64_t> trial_;
  std::vector<std::uint64_t> last_of_key_;
  std::vector<RunningMean> mean_of_key_;
  std::vector<std::uint8_t> bytes_;
};

/// Unpacks columns of untrusted chunks. Not thread-safe. Context: tool.
class ColumnDecoder {
 public:
  /// Writes exactly `count` values to `out`. Returns nullptr, or what is wrong with the column as
  /// words that follow its name ("has bytes left over").
  const char* decode(const ColumnView& column, std::size_t count, ColumnKeys keys,
                     std::uint64_t* out);

 private:
  std::vector<std::uint64_t> last_of_key_;
  std::vector<RunningMean> mean_of_key_;
};

}  // namespace gpuidle::trace
