// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli), the checksum of headers and payloads in a trace file. Chosen over CRC-32
// because x86 has an instruction for it: checking a chunk costs a fraction of inflating it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuidle::trace {

/// The checksum as iSCSI and ext4 use it: crc32c("123456789") is 0xe3069283. Any thread.
std::uint32_t crc32c(const std::uint8_t* bytes, std::size_t count);

/// The same without the instruction, for machines that lack it and for the test that compares.
std::uint32_t crc32c_portable(const std::uint8_t* bytes, std::size_t count);

}  // namespace gpuidle::trace
