// SPDX-License-Identifier: Apache-2.0
//
// The host's side of a foreign recording: which calls into CUDA or HIP were outermost, and which
// stack each had, rebuilt from the rows that enclose it. Fed by the importers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/model/records.h"
#include "libgpuidle/model/tables.h"

namespace gpuidle::import {

/// A call as the file has it. `thread` is a number of the importer's, perhaps not yet a ThreadId.
struct HostCall {
  model::ApiCall record;
  std::string_view name;
  std::uint32_t thread = 0;
  bool is_driver = false;
};

/// A row that may enclose calls. `name` and `call_stack` are JSON string tokens: a backslash begins
/// an escape.
struct HostSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string_view name, call_stack;
  std::uint32_t thread = 0;
  model::FrameId frame = 0;  ///< filled when first needed
  bool is_python = false;
};

/// Sorts by thread and time and removes calls inside other calls: driver calls inside the runtime
/// call that made them, and calls strictly inside a call of their own kind. An outer call takes the
/// correlation, and if its own role is `other` the role, of an inner one that enqueued work;
/// returns the correlations that were replaced: inner -> outer.
/// `used` holds the correlations of all activities, sorted.
std::unordered_map<std::uint32_t, std::uint32_t> keep_outermost(
    std::vector<HostCall>& calls, const std::vector<std::uint32_t>& used);

/// Gives every call that enqueues or may block the stack of rows around it, innermost first: Python
/// functions with file and line, operators and ranges by name. On a thread without Python rows, the
/// "Call stack" of the innermost operator that has one follows that operator. `calls` are sorted by
/// thread and time; `spans` are sorted in place.
void assign_stacks(std::vector<HostCall>& calls, std::vector<HostSpan>& spans,
                   model::Tables& tables);

/// Puts into `recording`, which has all its activities, what its users want of the host's side: the
/// outermost calls that feed or stall a device or are known to have enqueued something, with their
/// stacks; ApiCall::thread is HostCall::thread. Follows up in the activities (correlation,
/// is_async) and counts launches. `calls` keeps what was taken.
void add_calls(std::vector<HostCall>& calls, std::vector<HostSpan>& spans,
               model::MemoryRecording& recording);

}  // namespace gpuidle::import
