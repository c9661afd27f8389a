// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/trace/columns.h"

#include <algorithm>
#include <array>

namespace gpuidle::trace {
namespace {

constexpr std::uint8_t kMaxWidth = 8;

constexpr std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr std::uint64_t unzigzag(std::uint64_t folded) {
  return (folded >> 1) ^ (0 - (folded & 1));
}

constexpr std::size_t bits_of(std::uint64_t value) {
  return value == 0 ? 0 : static_cast<std::size_t>(64 - __builtin_clzll(value));
}
constexpr std::size_t varint_bytes(std::uint64_t value) {
  return value == 0 ? 1 : (bits_of(value) + 6) / 7;
}

void put_varint(std::vector<std::uint8_t>& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::uint8_t>(value));
}

// False at the end of the bytes or if the number does not fit 64 bits.
bool take_varint(const std::uint8_t*& next, const std::uint8_t* end, std::uint64_t* value) {
  std::uint64_t bits = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (next == end) return false;
    const std::uint8_t byte = *next++;
    if (shift == 63 && byte > 1) return false;
    bits |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      *value = bits;
      return true;
    }
  }
  return false;
}

// What a run of numbers costs in each packing.
struct Cost {
  std::size_t bits = 0;  // sum of significant bits: what is left after good compression
  std::size_t run_bytes = 0;
  std::size_t plane_bytes = 0;
  std::uint8_t width = 0;

  std::size_t packed_bytes() const { return std::min(run_bytes, plane_bytes); }
  // Runs beat any entropy coder, so they may undercut the sum of bits.
  std::size_t estimate() const { return std::min(bits, 8 * packed_bytes()); }
};

Cost cost_of(const std::vector<std::uint64_t>& numbers, std::size_t count, std::uint8_t min_width) {
  Cost cost;
  std::array<std::size_t, kMaxWidth + 1> with_bytes{};  // how many numbers take that many bytes
  std::size_t run = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = numbers[i];
    const std::size_t bits = bits_of(number);
    cost.bits += bits;
    ++with_bytes[(bits + 7) / 8];
    ++run;
    if (i + 1 == count || numbers[i + 1] != number) {
      cost.run_bytes += varint_bytes(run) + varint_bytes(number);
      run = 0;
    }
  }
  // From wide to narrow: `wider` numbers stick out of the planes, by `sticking_bytes` in total. An
  // exception takes those bytes, one for its index, and about one for what varints add.
  std::size_t wider = 0, sticking_bytes = 0;
  cost.plane_bytes = SIZE_MAX;
  for (std::uint8_t width = kMaxWidth;; --width) {
    const std::size_t bytes = width * count + 2 * wider + sticking_bytes;
    if (bytes <= cost.plane_bytes) {
      cost.plane_bytes = bytes;
      cost.width = width;
    }
    if (width == min_width) break;
    wider += with_bytes[width];
    sticking_bytes += wider;
  }
  return cost;
}

}  // namespace

void ColumnEncoder::transform(const std::uint64_t* values, std::size_t count, Candidate candidate,
                              ColumnKeys keys, std::vector<std::uint64_t>& out) {
  out.resize(count);
  std::uint64_t previous = candidate.base;
  switch (candidate.transform) {
    case Transform::delta:
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = values[i] - previous;
        previous = values[i];
      }
      return;
    case Transform::zigzag_delta:
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = zigzag(values[i] - previous);
        previous = values[i];
      }
      return;
    case Transform::keyed_delta:
      last_of_key_.assign(keys.key_count, candidate.base);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t& last = last_of_key_[keys.keys[i]];
        out[i] = zigzag(values[i] - last);
        last = values[i];
      }
      return;
    case Transform::keyed_mean:
      mean_of_key_.assign(keys.key_count, RunningMean(candidate.base));
      for (std::size_t i = 0; i < count; ++i) {
        RunningMean& mean = mean_of_key_[keys.keys[i]];
        out[i] = zigzag(values[i] - mean.expected());
        mean.add(values[i]);
      }
      return;
    case Transform::none:
    case Transform::unknown:
      for (std::size_t i = 0; i < count; ++i) out[i] = values[i] - candidate.base;
      return;
  }
}

void ColumnEncoder::pack_planes(std::size_t count, std::uint8_t width) {
  bytes_.resize(count * width);
  for (std::uint8_t plane = 0; plane < width; ++plane) {
    std::uint8_t* out = bytes_.data() + count * plane;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = static_cast<std::uint8_t>(best_[i] >> (8 * plane));
    }
  }
  if (width == kMaxWidth) return;
  std::size_t next_index = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t high = best_[i] >> (8 * width);
    if (high == 0) continue;
    put_varint(bytes_, i - next_index);
    put_varint(bytes_, high);
    next_index = i + 1;
  }
}

void ColumnEncoder::pack_runs(std::size_t count) {
  bytes_.clear();
  for (std::size_t i = 0; i < count;) {
    std::size_t end = i + 1;
    while (end < count && best_[end] == best_[i]) ++end;
    put_varint(bytes_, end - i);
    put_varint(bytes_, best_[i]);
    i = end;
  }
}

ColumnView ColumnEncoder::encode(const std::uint64_t* values, std::size_t count, Shape shape,
                                 Expansion expansion, ColumnKeys keys) {
  const std::uint8_t min_width = expansion == Expansion::byte_per_value ? 1 : 0;
  const std::uint64_t least = *std::min_element(values, values + count);
  std::array<Candidate, 4> candidates{{{Transform::delta, values[0]}}};
  std::size_t candidate_count = 1;
  if (shape == Shape::any) {
    candidates = {{{Transform::none, least},
                   {Transform::zigzag_delta, values[0]},
                   {Transform::keyed_delta, values[0]},
                   {Transform::keyed_mean, values[0]}}};
    candidate_count = keys.key_count > 0 ? 4 : 2;
  }
  Candidate chosen = candidates[0];
  Cost cost;
  for (std::size_t i = 0; i < candidate_count; ++i) {
    transform(values, count, candidates[i], keys, trial_);
    const Cost trial_cost = cost_of(trial_, count, min_width);
    if (i == 0 || trial_cost.estimate() < cost.estimate()) {
      cost = trial_cost;
      chosen = candidates[i];
      best_.swap(trial_);
    }
  }

  ColumnView view;
  view.transform = chosen.transform;
  view.base = chosen.base;
  if (cost.bits == 0 && min_width == 0) {
    view.transform = Transform::none;  // all values equal `base` under every transform
    return view;
  }
  if (min_width == 0 && cost.run_bytes < cost.plane_bytes) {
    view.packing = Packing::run_length;
    pack_runs(count);
  } else {
    view.packing = Packing::planes;
    view.width = cost.width;
    pack_planes(count, cost.width);
  }
  view.bytes = bytes_.data();
  view.size_bytes = bytes_.size();
  return view;
}

namespace {

template <int kWidth>
void unpack_planes_of(const std::uint8_t* bytes, std::size_t count, std::uint64_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t value = bytes[i];
    for (std::size_t plane = 1; plane < kWidth; ++plane) {
      value |= std::uint64_t{bytes[plane * count + i]} << (8 * plane);
    }
    out[i] = value;
  }
}

const char* apply_exceptions(const ColumnView& column, std::size_t count, std::uint64_t* out) {
  const std::uint8_t* next = column.bytes + count * column.width;
  const std::uint8_t* end = column.bytes + column.size_bytes;
  if (next != end && column.width == kMaxWidth) return "has bytes left over";
  std::uint64_t index = 0;
  while (next != end) {
    std::uint64_t gap = 0, high = 0;
    if (!take_varint(next, end, &gap) || !take_varint(next, end, &high)) return "is cut off";
    if (gap >= count - index) return "has an exception beyond its end";
    index += gap;
    out[index] |= high << (8 * column.width);
    ++index;
  }
  return nullptr;
}

const char* unpack_planes(const ColumnView& column, std::size_t count, std::uint64_t* out) {
  if (column.width > kMaxWidth) return "has an impossible width";
  // Divided, not multiplied: `count` may be hostile.
  if (column.width > 0 && column.size_bytes / column.width < count) return "is too short";
  const std::uint8_t* bytes = column.bytes;
  switch (column.width) {
    case 0:
      std::fill_n(out, count, 0);
      break;
    case 1:
      unpack_planes_of<1>(bytes, count, out);
      break;
    case 2:
      unpack_planes_of<2>(bytes, count, out);
      break;
    case 3:
      unpack_planes_of<3>(bytes, count, out);
      break;
    default:
      unpack_planes_of<4>(bytes, count, out);
      for (std::size_t plane = 4; plane < column.width; ++plane) {
        for (std::size_t i = 0; i < count; ++i) {
          out[i] |= std::uint64_t{bytes[plane * count + i]} << (8 * plane);
        }
      }
  }
  return apply_exceptions(column, count, out);
}

const char* unpack_runs(const ColumnView& column, std::size_t count, std::uint64_t* out) {
  const std::uint8_t* next = column.bytes;
  const std::uint8_t* end = column.bytes + column.size_bytes;
  std::size_t filled = 0;
  while (next != end) {
    std::uint64_t run = 0, value = 0;
    if (!take_varint(next, end, &run) || !take_varint(next, end, &value)) return "is cut off";
    if (run == 0 || run > count - filled) return "has runs that do not fit";
    std::fill_n(out + filled, run, value);
    filled += run;
  }
  return filled == count ? nullptr : "is too short";
}

const char* unpack(const ColumnView& column, std::size_t count, std::uint64_t* out) {
  switch (column.packing) {
    case Packing::constant:
      if (column.size_bytes != 0) return "has bytes left over";
      std::fill_n(out, count, 0);
      return nullptr;
    case Packing::planes:
      return unpack_planes(column, count, out);
    case Packing::run_length:
      return unpack_runs(column, count, out);
    case Packing::unknown:
      break;
  }
  return "has an unknown packing";
}

}  // namespace

const char* ColumnDecoder::decode(const ColumnView& column, std::size_t count, ColumnKeys keys,
                                  std::uint64_t* out) {
  if (const char* problem = unpack(column, count, out)) return problem;
  std::uint64_t value = column.base;
  switch (column.transform) {
    case Transform::none:
      if (value != 0) {
        for (std::size_t i = 0; i < count; ++i) out[i] += value;
      }
      return nullptr;
    case Transform::delta:
      for (std::size_t i = 0; i < count; ++i) out[i] = value += out[i];
      return nullptr;
    case Transform::zigzag_delta:
      for (std::size_t i = 0; i < count; ++i) out[i] = value += unzigzag(out[i]);
      return nullptr;
    case Transform::keyed_delta: {
      if (keys.key_count == 0) return "is keyed, and has no keys";
      last_of_key_.assign(keys.key_count, column.base);
      std::uint64_t* last = last_of_key_.data();
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = last[keys.keys[i]] += unzigzag(out[i]);
      }
      return nullptr;
    }
    case Transform::keyed_mean: {
      if (keys.key_count == 0) return "is keyed, and has no keys";
      mean_of_key_.assign(keys.key_count, RunningMean(column.base));
      RunningMean* means = mean_of_key_.data();
      for (std::size_t i = 0; i < count; ++i) {
        RunningMean& mean = means[keys.keys[i]];
        out[i] = mean.expected() + unzigzag(out[i]);
        mean.add(out[i]);
      }
      return nullptr;
    }
    case Transform::unknown:
      break;
  }
  return "has an unknown transform";
}

}  // namespace gpuidle::trace
