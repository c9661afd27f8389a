// SPDX-License-Identifier: Apache-2.0
//
// Turns buffers of CUPTI records into model records, by fixed prefixes guarded by the strides that
// the library at hand really uses. Fed by ActivityBuffers, feeds session.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libgpuidle/base/status.h"
#include "libgpuidle/cupti/cupti_api.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::cupti {

/// What one or more buffers held. ALL TIMES ARE IN CUPTI'S CLOCK; timeline/clock_map converts.
struct DecodedRecords {
  std::vector<model::DeviceActivity> activities;
  std::vector<model::Overhead> overheads;

  void clear() {
    activities.clear();
    overheads.clear();
  }
};

/// Context: drain.
class ActivityDecoder {
 public:
  /// Measures the stride of every kind by letting CUPTI walk a buffer made here; needs no device.
  /// Errors: unsupported_version, if a kind that is needed is shorter than what is read of it.
  base::Status prepare(const CuptiApi& api);

  /// Appends what `buffer` holds. Names and devices go into `tables`; what cannot be believed
  /// (zero or reversed times, unknown kinds) is counted in `losses` and dropped.
  void decode(std::uint8_t* buffer, std::size_t valid_bytes, model::Tables& tables,
              DecodedRecords& out, model::Losses& losses);

  /// Bytes of one record of `kind`; 0 = this library does not know the kind.
  std::size_t stride(CUpti_ActivityKind kind) const {
    return kind < kKindCount ? strides_[kind] : 0;
  }

 private:
  static constexpr std::size_t kKindCount = 64;

  std::size_t measure_stride(CUpti_ActivityKind kind) const;
  void decode_record(const CUpti_Activity& record, model::Tables& tables, DecodedRecords& out,
                     model::Losses& losses);
  model::KernelId kernel_of(const struct KernelPrefix& record, model::Tables& tables);

  const CuptiApi* api_ = nullptr;
  std::array<std::size_t, kKindCount> strides_{};
  // CUPTI gives the same pointer for the same kernel, but may give it to another one after a module
  // was unloaded: the text is compared on each use, which is far cheaper than hashing it.
  std::unordered_map<const char*, model::KernelId> last_kernel_of_name_;
};

}  // namespace gpuidle::cupti
