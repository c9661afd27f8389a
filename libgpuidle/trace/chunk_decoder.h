// SPDX-License-Identifier: Apache-2.0
//
// Turns the flatbuffers of chunks back into records, dictionary rows and facts. Fed by ChunkFile
// with bytes whose checksum holds, and trusts nothing else about them. Every function returns ""
// or what is wrong with the chunk, in words that follow "chunk N at offset X: ".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/model/tables.h"
#include "libgpuidle/trace/trace_format.h"

namespace gpuidle::trace {

/// Replaces the facts that an info chunk holds and leaves the others.
std::string decode_info(const std::uint8_t* bytes, std::size_t size_bytes,
                        model::RecordingInfo* info);
/// Appends rows. On failure `tables` holds some of them.
std::string decode_tables(const std::uint8_t* bytes, std::size_t size_bytes,
                          std::uint32_t record_count, model::Tables* tables);
std::string decode_losses(const std::uint8_t* bytes, std::size_t size_bytes, model::Losses* losses);
/// Both read a footer: its loss ledger; its index, payload_crc left 0.
std::string decode_footer_losses(const std::uint8_t* bytes, std::size_t size_bytes,
                                 model::Losses* losses);
std::string decode_index(const std::uint8_t* bytes, std::size_t size_bytes,
                         std::vector<ChunkHeader>* chunks);

/// Decodes chunks of records; each append() adds `header.record_count` rows in ascending order of
/// start to `out`, all of them or (on failure) none. Not thread-safe. Context: tool.
class RecordDecoder {
 public:
  /// Ids in records are checked against `tables`, which must outlive the decoder.
  explicit RecordDecoder(const model::Tables& tables);
  ~RecordDecoder();

  std::string append(const ChunkHeader& header, const std::uint8_t* bytes, std::size_t size_bytes,
                     std::vector<model::DeviceActivity>* out);
  std::string append(const ChunkHeader& header, const std::uint8_t* bytes, std::size_t size_bytes,
                     std::vector<model::ApiCall>* out);
  std::string append(const ChunkHeader& header, const std::uint8_t* bytes, std::size_t size_bytes,
                     std::vector<model::Marker>* out);
  std::string append(const ChunkHeader& header, const std::uint8_t* bytes, std::size_t size_bytes,
                     std::vector<model::Overhead>* out);
  std::string append(const ChunkHeader& header, const std::uint8_t* bytes, std::size_t size_bytes,
                     std::vector<model::Unobserved>* out);
  std::string append(const ChunkHeader& header, const std::uint8_t* bytes, std::size_t size_bytes,
                     std::vector<model::RecordedGap>* out);
  std::string append(const ChunkHeader& header, const std::uint8_t* bytes, std::size_t size_bytes,
                     std::vector<model::ThreadSample>* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuidle::trace
