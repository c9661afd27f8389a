// SPDX-License-Identifier: Apache-2.0
//
// What every reader promises of a recording that it returns, whatever it was made from: the
// analysis builds on it without looking again. Used by the fuzz targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "libgpuidle/model/recording.h"

namespace gpuidle::fuzz {

/// Ends the run, so that the fuzzer keeps the input.
inline void demand(bool holds) {
  if (!holds) std::abort();
}

class PromiseChecker : public model::SliceVisitor {
 public:
  explicit PromiseChecker(const model::Tables& tables) : tables_(tables) {}

  void on_slice(const model::Slice& slice) override {
    demand(slice.begin_ns < slice.end_ns && slice.begin_ns >= end_ns_);
    end_ns_ = slice.end_ns;
    const std::size_t strings = tables_.strings().size(), threads = tables_.threads().size();
    std::int64_t last_ns = slice.begin_ns;
    for (const auto& a : slice.activities) {
      demand(a.start_ns >= last_ns && a.start_ns < slice.end_ns && a.end_ns >= a.start_ns);
      demand(a.kernel < tables_.kernels().size() && a.name < strings);
      last_ns = a.start_ns;
    }
    for (const auto& c : slice.calls) {
      demand(c.enter_ns >= last_call_ns_ && c.exit_ns >= c.enter_ns);
      demand(c.thread < threads && c.api < tables_.apis().size());
      demand(c.stack < tables_.stack_count());
      last_call_ns_ = c.enter_ns;
    }
    for (const auto& m : slice.markers) demand(m.thread < threads && m.name < strings);
    for (const auto& o : slice.overheads) demand(o.thread < threads && o.name < strings);
    for (const auto& u : slice.unobserved) demand(u.reason < strings && u.end_ns >= u.start_ns);
    for (const auto& g : slice.gaps) demand(g.end_ns >= g.start_ns);
    for (const auto& s : slice.samples) {
      demand(s.thread < threads && s.stack < tables_.stack_count() && s.end_ns >= s.start_ns);
    }
  }

 private:
  const model::Tables& tables_;
  std::int64_t end_ns_ = INT64_MIN;
  std::int64_t last_call_ns_ = INT64_MIN;
};

/// Walks the whole recording; a walk that ends with an error is the reader's right.
inline void check_promises(const model::Recording& recording) {
  demand(recording.tables().is_consistent());
  PromiseChecker checker(recording.tables());
  const base::Status status = recording.visit(checker);
  demand(status.ok() || !status.message().empty());
}

}  // namespace gpuidle::fuzz
