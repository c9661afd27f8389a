// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/host_side.h"

#include <algorithm>
#include <limits>
#include <string_view>

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

void HostSide::cover(model::ThreadId thread, const timeline::Interval& within,
                     Surroundings* around) const {
  const std::int64_t most_ns = within.length_ns();
  const auto add = [most_ns](std::int64_t* sum_ns, std::int64_t ns) {
    *sum_ns = std::min(most_ns, *sum_ns + ns);
  };
  overheads_.each_over(within, [&](bool is_profiler, std::int64_t ns) {
    add(is_profiler ? &around->profiler_ns : &around->driver_ns, ns);
  });
  const auto markers = markers_.find(thread);
  if (markers != markers_.end()) {
    std::array<std::int64_t, kHostWorkCount> ns_of{};
    markers->second.each_over(within, [&](HostWork work, std::int64_t ns) {
      add(&ns_of[static_cast<std::size_t>(work)], ns);
    });
    const auto* const most = std::max_element(ns_of.begin(), ns_of.end());
    around->named_ns = *most;
    around->named_work = static_cast<HostWork>(most - ns_of.begin());
  }
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
