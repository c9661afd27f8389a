// SPDX-License-Identifier: Apache-2.0
//
// All that the verdicts ask of the host, and of the other devices, while a recording streams by:
// calls, named ranges, overheads, warm-up, and what other devices have just finished. Fed by
// analyze() in order of time; feeds the analyses of the devices. Memory is fixed per thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "libgpuidle/analysis/call_table.h"
#include "libgpuidle/analysis/clues.h"
#include "libgpuidle/analysis/frame_work.h"
#include "libgpuidle/analysis/span_ring.h"

namespace gpuidle::analysis {

/// Context: tool.
class HostSide {
 public:
  /// Both must outlive this object; see FrameWork.
  HostSide(const model::Tables& tables, FrameNames* names);

  void add(const model::ApiCall& call) {
    calls_.add(call);
    if (!first_call_ns_) first_call_ns_ = warm_up_end_ns_ = call.enter_ns;
    if (is_preparing(call)) extend_warm_up(call);
  }
  void add(const model::Marker& marker);
  void add(const model::Overhead& overhead);
  void add(const model::ThreadSample& sample);

  const CallTable& calls() const { return calls_; }
  FrameWork& frames() { return frames_; }

  /// Fills in what of [start_ns, end_ns) is covered by overheads, by the markers, calls and samples
  /// of `thread`, and by samples of child processes.
  void cover(model::ThreadId thread, const timeline::Interval& within, Surroundings* around) const;
  /// True if the call allocates or frees device memory, not memory of the host.
  bool is_device_memory(model::ApiId api) const {
    return api < is_device_memory_.size() && is_device_memory_[api];
  }

  /// A place for what device number `peer`, counted from 0, has finished.
  std::size_t add_peer();
  void finished(std::size_t peer, std::int64_t end_ns) {
    Peer& row = peers_[peer];
    row.ends_ns[row.next++ % row.ends_ns.size()] = end_ns;
  }
  /// True if another device than `peer` finished something within 20 us before, or the clocks'
  /// slack after, `at_ns`.
  bool has_producer(std::size_t peer, std::int64_t at_ns) const;

  std::optional<std::int64_t> first_call_ns() const { return first_call_ns_; }
  /// From the first call on, code was loaded or memory allocated at least once a second until then.
  std::int64_t warm_up_end_ns() const { return warm_up_end_ns_; }

 private:
  struct Peer {
    std::array<std::int64_t, 8> ends_ns{};
    std::size_t next = 0;
  };
  // A launch that takes this long loads code: for room in a full queue none waits so long.
  static constexpr std::int64_t kLoadingLaunch_ns = 100'000'000;
  static constexpr bool is_preparing(const model::ApiCall& call) {
    return call.role == model::ApiRole::alloc || call.role == model::ApiRole::module_load ||
           call.role == model::ApiRole::graph_build ||
           (call.role == model::ApiRole::launch &&
            call.exit_ns - call.enter_ns >= kLoadingLaunch_ns);
  }
  void extend_warm_up(const model::ApiCall& call);
  struct Look {
    model::StackId stack;
    model::ThreadActivity activity;
    model::WaitTarget target;
  };
  void cover_by_names(model::ThreadId thread, const timeline::Interval& within,
                      Surroundings* around) const;
  void cover_by_samples(model::ThreadId thread, const timeline::Interval& within,
                        Surroundings* around) const;
  WorkerState workers_during(const timeline::Interval& within) const;

  CallTable calls_;
  mutable FrameWork frames_;  // remembers what it has looked up
  std::unordered_map<model::ThreadId, SpanRing<HostWork>> markers_;
  std::unordered_map<model::ThreadId, SpanRing<Look>> samples_;
  SpanRing<WorkerState> workers_;
  SpanRing<bool> overheads_;  // true: the profiler's
  std::vector<bool> is_device_memory_;
  std::vector<Peer> peers_;
  std::optional<std::int64_t> first_call_ns_;
  std::int64_t warm_up_end_ns_ = 0;
};

}  // namespace gpuidle::analysis
