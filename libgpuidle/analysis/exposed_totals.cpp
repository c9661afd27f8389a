// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/analysis/exposed_totals.h"

#include <algorithm>
#include <tuple>

namespace gpuidle::analysis {

std::uint32_t ExposedTotals::add(const model::DeviceActivity& op, const model::ApiCall* call,
                                 FrameWork* frames) {
  const model::ApiId api = call != nullptr ? call->api : 0;
  const model::StackId stack = call != nullptr ? call->stack : 0;
  const Key key{static_cast<std::uint64_t>(api) << 32 | stack,
                static_cast<std::uint32_t>(op.kind) << 16 |
                    static_cast<std::uint32_t>(op.copy) << 8 |
                    static_cast<std::uint32_t>(op.source)};
  const auto [found, is_new] = index_.emplace(key, static_cast<std::uint32_t>(groups_.size()));
  if (is_new) {
    ExposedGroup group;
    group.is_communication =
        op.kind == model::ActivityKind::kernel || op.copy == model::CopyKind::peer;
    group.copy = op.kind == model::ActivityKind::memcpy ? op.copy : model::CopyKind::unknown;
    group.source = op.source;
    group.kernel = op.kernel;
    group.api = api;
    group.stack = stack;
    group.work = frames->of_stack(stack).work;
    groups_.push_back(group);
  }
  ExposedGroup& group = groups_[found->second];
  ++group.count;
  group.bytes += op.bytes;
  group.largest_bytes = std::max(group.largest_bytes, op.bytes);
  group.total_ns += op.end_ns - op.start_ns;
  if (call != nullptr) group.call_ns += call->exit_ns - call->enter_ns;
  return found->second;
}

std::vector<ExposedGroup> ExposedTotals::take() {
  std::vector<ExposedGroup> exposed;
  for (const ExposedGroup& group : groups_) {
    if (group.exposed_ns > 0) exposed.push_back(group);
  }
  const auto place = [](const ExposedGroup& g) {
    return std::make_tuple(-g.exposed_ns, g.api, g.stack, g.copy, g.source, g.kernel);
  };
  std::sort(exposed.begin(), exposed.end(),
            [&](const ExposedGroup& a, const ExposedGroup& b) { return place(a) < place(b); });
  groups_.clear();
  index_.clear();
  return exposed;
}

}  // namespace gpuidle::analysis
