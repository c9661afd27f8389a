// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target: any bytes as a Kineto trace, as they are and unpacked. The reader must return,
// and what it returns must keep the promises that the analysis builds on.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libgpuidle/import/gzip.h"
#include "libgpuidle/import/kineto.h"
#include "tests/fuzz/reader_promises.h"

namespace {

using namespace gpuidle;

void read(import::PaddedText text) {
  const auto result = import::read_kineto(std::move(text), "fuzz");
  if (!result.ok()) {
    fuzz::demand(!result.status().message().empty());
    return;
  }
  // Sparse times make as many slices as there are records; the sizes here keep that small.
  fuzz::check_promises(*result.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!import::is_gzip(bytes)) {
    read(import::PaddedText::copy_of(bytes));
    return 0;
  }
  import::GunzipLimits limits;
  limits.max_bytes = 1 << 20;
  auto unpacked = import::gunzip(bytes, "fuzz", limits);
  if (unpacked.ok()) read(unpacked.take());
  return 0;
}
