// SPDX-License-Identifier: Apache-2.0
//
// Walks the JSON of a Kineto (PyTorch profiler) trace once, without building a tree, and hands out
// its rows as tokens. The only file pair that includes simdjson; feeds KinetoRecordingBuilder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libgpuidle/base/status.h"
#include "libgpuidle/import/padded_text.h"

namespace gpuidle::import {

/// What a row is, from its phase and category; categories of all ages of Kineto, any case.
enum class RowKind : std::uint8_t {
  ignored,  ///< flows, instants, and categories that say nothing about device or host time
  unknown,  ///< a row with a duration and a category that is not known here
  kernel,
  memcpy,
  memset,
  runtime_call,  ///< CUDA or HIP runtime
  driver_call,
  operator_call,  ///< a framework operator on the host
  annotation,     ///< a range that the program named, on the host
  python,         ///< one Python function call
  overhead,       ///< profiler or driver
  window,         ///< the span in which the profiler recorded
  memory_event,   ///< an allocation or a free by the framework's allocator
  metadata,       ///< names of processes and threads
};

/// One row. Views into the text: strings without their quotes and with escapes unresolved, numbers
/// as written; empty = absent. Arguments are filled only for the kinds that have a use for them.
struct KinetoRow {
  std::string_view phase, category, name, pid, tid, ts, dur;
  std::string_view device, stream, context, correlation, bytes, graph;
  std::string_view grid,
      block;  ///< begin at the bracket of an array of three; end somewhere behind
  std::string_view registers, shared_memory;
  std::string_view call_stack;  ///< "file(line): function;..." innermost first
  std::string_view device_type, device_id, memory_bytes, total_allocated, total_reserved;
  std::string_view label;  ///< args.name of a metadata row
  RowKind kind = RowKind::ignored;
};

struct KinetoDevice {
  std::string_view id, name, multiprocessors, compute_major, compute_minor, memory_bytes;
};

/// What stands beside the rows.
struct KinetoHeader {
  std::string_view base_time_ns;  ///< baseTimeNanoseconds
  std::string_view rank, world_size, host_name;
  std::string_view cupti_version, cuda_runtime_version, roctracer_version, hip_runtime_version;
  std::vector<KinetoDevice> devices;
  std::vector<std::pair<std::string_view, std::string_view>>
      settings;                        ///< what the profiler was told
  std::vector<std::string_view> keys;  ///< of the root object, the first few
  bool is_array = false;               ///< the root is a bare array of rows
  bool has_rows = false;               ///< traceEvents was there, or the root array holds events
};

/// Receives the rows in the order of the file.
class KinetoRowSink {
 public:
  virtual ~KinetoRowSink() = default;
  virtual void on_row(const KinetoRow& row) = 0;
  /// An element of traceEvents that is no object.
  virtual void on_bad_row() = 0;
};

/// How a walk ended. `error` is empty if the whole text was understood.
struct KinetoWalk {
  KinetoHeader header;
  std::string error;             ///< the parser's words
  std::size_t error_offset = 0;  ///< byte at which the row began that could not be read
  bool is_started = false;       ///< false: refused as a whole, nothing was handed out
};

/// Walks `text`, which must outlive the views that are handed out. Never throws for bad input.
/// Context: tool.
KinetoWalk walk_kineto(const PaddedText& text, KinetoRowSink& sink);

}  // namespace gpuidle::import
