// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/host_side.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace gpuidle::analysis {
namespace {

constexpr std::int64_t kWarmUpPause_ns = 1'000'000'000;
constexpr std::int64_t kProducerBefore_ns = 20'000;
constexpr std::int64_t kProducerAfter_ns = 5'000;

bool names_host_memory(std::string_view name) {
  return name.find("Host") != std::string_view::npos ||
         name.find("Register") != std::string_view::npos ||
         name.find("register") != std::string_view::npos;
}

// Ready without a processor, or waiting for another thread or process of this machine.
bool is_kept_off(model::ThreadActivity activity, model::WaitTarget target) {
  if (activity != model::ThreadActivity::waiting) {
    return activity == model::ThreadActivity::runnable;
  }
  switch (target) {
    case model::WaitTarget::lock:
    case model::WaitTarget::interpreter_lock:
    case model::WaitTarget::pipe:
    case model::WaitTarget::local_socket:
    case model::WaitTarget::child_process:
      return true;
    default:
      return false;
  }
}

WorkerState state_of(const model::ThreadSample& sample) {
  if (sample.activity == model::ThreadActivity::running ||
      sample.activity == model::ThreadActivity::runnable) {
    return WorkerState::busy;
  }
  if (sample.activity != model::ThreadActivity::waiting) return WorkerState::unknown;
  switch (sample.target) {
    case model::WaitTarget::network_file:
    case model::WaitTarget::external_socket:
      return WorkerState::remote;
    case model::WaitTarget::local_file:
    case model::WaitTarget::file:
    case model::WaitTarget::page_fault:
      return WorkerState::disk;
    default:
      return WorkerState::idle;
  }
}

// Adds up time by the work that names give away.
class WorkTimes {
 public:
  void add(HostWork work, std::int64_t ns) { ns_of_[static_cast<std::size_t>(work)] += ns; }
  // Tells the work with most time, unless another source of names has told one with more.
  void tell(std::int64_t most_ns, Surroundings* around) const {
    const auto* const most = std::max_element(ns_of_.begin() + 1, ns_of_.end());
    const std::int64_t ns = std::min(most_ns, *most);
    if (ns <= around->named_ns) return;
    around->named_ns = ns;
    around->named_work = static_cast<HostWork>(most - ns_of_.begin());
  }

 private:
  std::array<std::int64_t, kHostWorkCount> ns_of_{};
};

}  // namespace

HostSide::HostSide(const model::Tables& tables, FrameNames* names) : frames_(tables, names) {
  for (const model::Api& api : tables.apis()) {
    is_device_memory_.push_back(
        (api.role == model::ApiRole::alloc || api.role == model::ApiRole::free) &&
        !names_host_memory(tables.string(api.name)));
  }
}

void HostSide::extend_warm_up(const model::ApiCall& call) {
  if (call.enter_ns <= warm_up_end_ns_ + kWarmUpPause_ns) {
    warm_up_end_ns_ = std::max(warm_up_end_ns_, call.exit_ns);
  }
}

void HostSide::add(const model::Marker& marker) {
  if (marker.kind != model::Marker::Kind::range || marker.thread == 0) return;
  const HostWork work = frames_.of_name(marker.name);
  if (work != HostWork::other) {
    markers_[marker.thread].add({marker.start_ns, marker.end_ns}, work);
  }
}

void HostSide::add(const model::Overhead& overhead) {
  overheads_.add({overhead.start_ns, overhead.end_ns}, overhead.is_profiler);
}

void HostSide::add(const model::ThreadSample& sample) {
  if (sample.is_child_process) {
    workers_.add({sample.start_ns, sample.end_ns}, state_of(sample));
  } else if (sample.thread != 0) {
    samples_[sample.thread].add({sample.start_ns, sample.end_ns},
                                {sample.stack, sample.activity, sample.target});
  }
}

void HostSide::cover_by_names(model::ThreadId thread, const timeline::Interval& within,
                              Surroundings* around) const {
  const auto markers = markers_.find(thread);
  if (markers == markers_.end()) return;
  WorkTimes times;
  markers->second.each_over(within, [&](HostWork work, std::int64_t ns) { times.add(work, ns); });
  times.tell(within.length_ns(), around);
}

void HostSide::cover_by_samples(model::ThreadId thread, const timeline::Interval& within,
                                Surroundings* around) const {
  const auto samples = samples_.find(thread);
  if (samples == samples_.end()) return;
  SampledTime& sampled = around->sampled;
  // By function: each look into a loop finds it at another line.
  struct Row {
    std::uint64_t function;
    model::StackId stack;
    std::int64_t ns;
  };
  std::vector<Row> rows;
  WorkTimes times;
  samples->second.each_over(within, [&](const Look& look, std::int64_t ns) {
    sampled.total_ns += ns;
    const StackWork work = frames_.of_stack(look.stack);
    times.add(work.work, ns);
    if (is_kept_off(look.activity, look.target)) sampled.kept_off_ns += ns;
    if (look.target == model::WaitTarget::network_file) sampled.remote_ns += ns;
    if (look.target == model::WaitTarget::external_socket) sampled.external_ns += ns;
    if (look.stack == 0) return;
    const auto known = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
      return work.function != 0 ? row.function == work.function : row.stack == look.stack;
    });
    if (known == rows.end()) {
      rows.push_back({work.function, look.stack, ns});
    } else {
      known->ns += ns;
    }
  });
  std::int64_t most_ns = 0;
  for (const Row& row : rows) {
    if (row.ns < most_ns) continue;
    most_ns = row.ns;
    sampled.stack = row.stack;
  }
  times.tell(within.length_ns(), around);
  if (sampled.total_ns > 0) sampled.workers = workers_during(within);
}

WorkerState HostSide::workers_during(const timeline::Interval& within) const {
  std::array<std::int64_t, kWorkerStateCount> ns_of{};
  workers_.each_over(within, [&](WorkerState state, std::int64_t ns) {
    ns_of[static_cast<std::size_t>(state)] += ns;
  });
  const auto* const most = std::max_element(ns_of.begin() + 1, ns_of.end());
  return *most > 0 ? static_cast<WorkerState>(most - ns_of.begin()) : WorkerState::unknown;
}

void HostSide::cover(model::ThreadId thread, const timeline::Interval& within,
                     Surroundings* around) const {
  const std::int64_t most_ns = within.length_ns();
  const auto add = [most_ns](std::int64_t* sum_ns, std::int64_t ns) {
    *sum_ns = std::min(most_ns, *sum_ns + ns);
  };
  overheads_.each_over(within, [&](bool is_profiler, std::int64_t ns) {
    add(is_profiler ? &around->profiler_ns : &around->driver_ns, ns);
  });
  cover_by_names(thread, within, around);
  cover_by_samples(thread, within, around);
  std::int64_t longest_ns = 0;
  calls_.each_blocking_over(thread, within, [&](const model::ApiCall& call, std::int64_t ns) {
    const bool is_memory = call.role == model::ApiRole::alloc || call.role == model::ApiRole::free;
    if (is_memory && ns > longest_ns) {
      longest_ns = ns;
      around->is_device_memory = is_device_memory(call.api);
    }
    add(is_memory                                  ? &around->alloc_ns
        : call.role == model::ApiRole::module_load ? &around->load_ns
                                                   : &around->wait_ns,
        ns);
  });
}

std::size_t HostSide::add_peer() {
  peers_.emplace_back();
  peers_.back().ends_ns.fill(std::numeric_limits<std::int64_t>::min());
  return peers_.size() - 1;
}

bool HostSide::has_producer(std::size_t peer, std::int64_t at_ns) const {
  for (std::size_t other = 0; other < peers_.size(); ++other) {
    if (other == peer) continue;
    for (const std::int64_t end_ns : peers_[other].ends_ns) {
      if (end_ns >= at_ns - kProducerBefore_ns && end_ns <= at_ns + kProducerAfter_ns) return true;
    }
  }
  return false;
}

}  // namespace gpuidle::analysis
