// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/import/host_calls.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "libgpuidle/import/json_string.h"
#include "libgpuidle/model/cuda_api.h"

namespace gpuidle::import {
namespace {

using model::ApiRole;
using model::Frame;
using model::FrameId;

// Stacks in the wild are 20 to 90 rows deep; what is deeper is cut at the outer end.
constexpr std::size_t kMaxFrames = 128;
// A malformed file may hold any number of rows that cross each other; looking at no more than this
// many for one call keeps the work proportional to the file.
constexpr std::size_t kMaxRowsExamined = 512;

bool is_inside(const HostCall& inner, const HostCall& outer) {
  const model::ApiCall& in = inner.record;
  const model::ApiCall& out = outer.record;
  if (inner.thread != outer.thread || in.enter_ns < out.enter_ns || in.exit_ns > out.exit_ns) {
    return false;
  }
  // With times of whole microseconds, neighbours may share both ends: only a driver call inside a
  // runtime call is taken for nested then.
  if (inner.is_driver && !outer.is_driver) return in.enter_ns < out.exit_ns;
  return in.enter_ns > out.enter_ns && in.exit_ns < out.exit_ns;
}

std::vector<std::uint32_t> correlations_of(const std::vector<model::DeviceActivity>& activities) {
  std::vector<std::uint32_t> ids;
  ids.reserve(activities.size());
  for (const model::DeviceActivity& activity : activities) {
    if (activity.correlation != 0) ids.push_back(activity.correlation);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// "path/file.py(12): function" is how Kineto spells a Python frame; anything else is a name.
Frame frame_of(std::string_view name, model::Tables& tables) {
  Frame frame;
  frame.kind = Frame::Kind::symbolic;
  for (std::size_t open = name.find('('); open != std::string_view::npos;
       open = name.find('(', open + 1)) {
    std::size_t end = open + 1;
    std::uint32_t line = 0;
    while (end < name.size() && name[end] >= '0' && name[end] <= '9' && end - open <= 9) {
      line = line * 10 + static_cast<std::uint32_t>(name[end++] - '0');
    }
    if (end == open + 1 || name.substr(end, 3) != "): " || open == 0) continue;
    frame.kind = Frame::Kind::python;
    frame.line = line;
    frame.file = tables.intern(name.substr(0, open));
    name.remove_prefix(end + 3);
    break;
  }
  frame.function = tables.intern(name);
  return frame;
}

// Addresses of objects ("<built-in method add of Tensor object at 0x7f...>") and numbers of module
// instances ("nn.Module: Linear_3") would make another stack of every object that passes the same
// line: 667 stacks instead of 37 among 929 calls of one step of an inference server.
std::string_view without_instance(std::string_view name) {
  constexpr std::string_view kAddress = " at 0x", kModule = "nn.Module: ";
  const std::size_t address = name.rfind(kAddress);
  if (address != std::string_view::npos) {
    const std::size_t end = name.find_first_not_of("0123456789abcdef", address + kAddress.size());
    if (end == std::string_view::npos || name.substr(end) == ">") return name.substr(0, address);
  }
  if (name.substr(0, kModule.size()) == kModule) {
    const std::size_t number = name.find_last_not_of("0123456789");
    if (number + 1 < name.size() && name[number] == '_') return name.substr(0, number);
  }
  return name;
}

FrameId intern_frame(std::string_view token, model::Tables& tables) {
  const bool is_plain = token.find('\\') == std::string_view::npos;
  const std::string text = is_plain ? std::string() : unescaped(token);
  const std::string_view name = without_instance(is_plain ? token : std::string_view(text));
  const bool is_cut = !name.empty() && name[0] == '<' && name.back() != '>';
  return tables.intern(is_cut ? frame_of(std::string(name) + ">", tables) : frame_of(name, tables));
}

// Whether a row that began by then was still going on when the call was entered. The call's exit is
// not asked: start and duration are rounded separately in older files, and a row may seem to end
// inside a call that it made.
bool is_open(const HostSpan& span, const model::ApiCall& call) {
  return span.end_ns > call.enter_ns ||
         (span.end_ns == call.enter_ns && call.exit_ns == call.enter_ns);
}

// The rows around one moment of one thread, outermost at the bottom.
class OpenRows {
 public:
  explicit OpenRows(model::Tables& tables) : tables_(tables) {}

  void reset() {
    open_.clear();
    has_python_ = false;
  }
  void add(HostSpan& span) {
    close_before(span.start_ns);
    open_.push_back(&span);
    has_python_ |= span.is_python;
  }
  model::StackId stack_of(const model::ApiCall& call) {
    close_before(call.enter_ns);
    frames_.clear();
    std::size_t examined = 0;
    for (auto it = open_.rbegin(); it != open_.rend() && examined < kMaxRowsExamined;
         ++it, ++examined) {
      HostSpan& span = **it;
      if (!is_open(span, call)) continue;
      if (frames_.size() == kMaxFrames) break;
      if (span.frame == 0) span.frame = intern_frame(span.name, tables_);
      frames_.push_back(span.frame);
      if (!has_python_ && !span.call_stack.empty()) {
        append_call_stack(span.call_stack);
        break;
      }
    }
    return tables_.intern_stack(frames_.data(), frames_.size());
  }

 private:
  void close_before(std::int64_t moment_ns) {
    while (!open_.empty() && open_.back()->end_ns < moment_ns) open_.pop_back();
  }
  void append_call_stack(std::string_view stack) {
    while (!stack.empty() && frames_.size() < kMaxFrames) {
      const std::size_t end = std::min(stack.find(';'), stack.size());
      if (end > 0) frames_.push_back(intern_frame(stack.substr(0, end), tables_));
      stack.remove_prefix(std::min(end + 1, stack.size()));
    }
  }

  model::Tables& tables_;
  std::vector<HostSpan*> open_;
  std::vector<FrameId> frames_;
  bool has_python_ = false;  // on this thread, so far
};

}  // namespace

std::unordered_map<std::uint32_t, std::uint32_t> keep_outermost(
    std::vector<HostCall>& calls, const std::vector<std::uint32_t>& used) {
  std::unordered_map<std::uint32_t, std::uint32_t> replaced;
  std::stable_sort(calls.begin(), calls.end(), [](const HostCall& a, const HostCall& b) {
    return std::make_tuple(a.thread, a.record.enter_ns, -a.record.exit_ns, a.is_driver) <
           std::make_tuple(b.thread, b.record.enter_ns, -b.record.exit_ns, b.is_driver);
  });
  std::size_t kept = 0;
  for (HostCall& call : calls) {
    if (kept == 0 || !is_inside(call, calls[kept - 1])) {
      calls[kept++] = call;
      continue;
    }
    model::ApiCall& outer = calls[kept - 1].record;
    if (model::enqueues_work(call.record.role) && outer.role == ApiRole::other) {
      outer.role = call.record.role;
    }
    const std::uint32_t inner_id = call.record.correlation;
    if (inner_id == 0 || inner_id == outer.correlation) continue;
    if (!std::binary_search(used.begin(), used.end(), inner_id)) continue;
    if (outer.correlation == 0)
      outer.correlation = inner_id;
    else
      replaced.emplace(inner_id, outer.correlation);
  }
  calls.resize(kept);
  return replaced;
}

void assign_stacks(std::vector<HostCall>& calls, std::vector<HostSpan>& spans,
                   model::Tables& tables) {
  std::stable_sort(spans.begin(), spans.end(), [](const HostSpan& a, const HostSpan& b) {
    return std::make_tuple(a.thread, a.start_ns, -a.end_ns) <
           std::make_tuple(b.thread, b.start_ns, -b.end_ns);
  });
  OpenRows rows(tables);
  auto span = spans.begin();
  const HostCall* previous = nullptr;
  for (HostCall& call : calls) {
    if (previous == nullptr || previous->thread != call.thread) {
      rows.reset();
      while (span != spans.end() && span->thread < call.thread) ++span;
    }
    previous = &call;
    for (; span != spans.end() && span->thread == call.thread &&
           span->start_ns <= call.record.enter_ns;
         ++span) {
      rows.add(*span);
    }
    if (model::enqueues_work(call.record.role) || model::may_block(call.record.role)) {
      call.record.stack = rows.stack_of(call.record);
    }
  }
}

void add_calls(std::vector<HostCall>& calls, std::vector<HostSpan>& spans,
               model::MemoryRecording& recording) {
  auto& activities = recording.records.activities;
  const auto replaced = keep_outermost(calls, correlations_of(activities));
  if (!replaced.empty()) {
    for (model::DeviceActivity& activity : activities) {
      const auto outer = replaced.find(activity.correlation);
      if (outer != replaced.end()) activity.correlation = outer->second;
    }
  }
  // Like our own recorder, keep only calls that feed or stall a device, and whatever else is known
  // to have enqueued something.
  const auto used = correlations_of(activities);
  calls.erase(std::remove_if(calls.begin(), calls.end(),
                             [&used](const HostCall& call) {
                               return call.record.role == ApiRole::other &&
                                      !std::binary_search(used.begin(), used.end(),
                                                          call.record.correlation);
                             }),
              calls.end());
  model::Tables& tables = recording.mutable_tables();
  assign_stacks(calls, spans, tables);
  std::unordered_map<std::uint32_t, ApiRole> role_of_correlation;
  for (HostCall& call : calls) {
    const std::string name = unescaped(call.name);
    call.record.api = tables.intern_api(model::without_variant(name), call.record.role);
    call.record.thread = call.thread;
    if (call.record.correlation != 0) {
      role_of_correlation.emplace(call.record.correlation, call.record.role);
    }
    const bool is_launch =
        call.record.role == ApiRole::launch || call.record.role == ApiRole::graph_launch;
    recording.mutable_info().launch_calls += is_launch ? 1 : 0;
    recording.records.calls.push_back(call.record);
  }
  for (model::DeviceActivity& activity : activities) {
    if (activity.kind == model::ActivityKind::kernel) continue;
    const auto role = role_of_correlation.find(activity.correlation);
    activity.is_async = role != role_of_correlation.end() &&
                        (role->second == ApiRole::copy || role->second == ApiRole::set);
  }
}

}  // namespace gpuidle::import
