// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target: any bytes as a Kineto trace, as they are and unpacked. The reader must return,
// and what it returns must keep the promises that the analysis builds on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "libgpuidle/import/gzip.h"
#include "libgpuidle/import/kineto.h"

namespace {

using namespace gpuidle;

void demand(bool holds) {
  if (!holds) std::abort();
}

class Checker : public model::SliceVisitor {
 public:
  explicit Checker(const model::Tables& tables) : tables_(tables) {}
  void on_slice(const model::Slice& slice) override {
    for (const auto& a : slice.activities) {
      demand(a.end_ns >= a.start_ns);
      demand(a.kernel < tables_.kernels().size() && a.name < tables_.strings().size());
    }
    for (const auto& c : slice.calls) {
      demand(c.exit_ns >= c.enter_ns);
      demand(c.thread < tables_.threads().size() && c.api < tables_.apis().size());
      demand(c.stack < tables_.stack_count());
    }
    for (const auto& m : slice.markers) demand(m.thread < tables_.threads().size());
  }

 private:
  const model::Tables& tables_;
};

void read(import::PaddedText text) {
  const auto result = import::read_kineto(std::move(text), "fuzz");
  if (!result.ok()) {
    demand(!result.status().message().empty());
    return;
  }
  demand(result.value()->tables().is_consistent());
  // Sparse times make as many slices as there are records; the sizes here keep that small.
  Checker checker(result.value()->tables());
  demand(result.value()->visit(checker).ok());
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
