// SPDX-License-Identifier: Apache-2.0
//
// One line of `gpuidle dump` per record or dictionary row, as text or as a JSON object. Fed by
// cmd_dump.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "libgpuidle/model/recording.h"
#include "libgpuidle/symbols/symbolizer.h"

namespace gpuidle::cli {

/// Context: tool.
class DumpLines {
 public:
  /// Times in text are shown since `origin_ns`; JSON has them as they are in the recording.
  DumpLines(const model::Recording& recording, std::int64_t origin_ns, bool is_json);

  /// What the lines are about, with its newline.
  std::string head() const;

  std::string line(const model::DeviceActivity& activity) const;
  std::string line(const model::ApiCall& call) const;
  std::string line(const model::Marker& marker) const;
  std::string line(const model::Overhead& overhead) const;
  std::string line(const model::Unobserved& unobserved) const;
  std::string line(const model::RecordedGap& gap) const;
  std::string line(const model::ThreadSample& sample) const;

  /// Rows of the dictionaries, called for each id from 1 on.
  std::string kernel_line(model::KernelId id) const;
  std::string module_line(model::ModuleId id) const;
  std::string thread_line(model::ThreadId id) const;
  std::string stack_line(model::StackId id);
  std::string device_line(const model::Device& device) const;

 private:
  std::string begin(const char* word, std::int64_t start_ns, std::int64_t end_ns) const;
  std::string thread_of(model::ThreadId id) const;
  std::string text(model::StringId id) const;

  const model::Recording& recording_;
  const model::Tables& tables_;
  std::int64_t origin_ns_;
  bool is_json_;
  symbols::Symbolizer symbolizer_;
};

}  // namespace gpuidle::cli
