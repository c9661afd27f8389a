// SPDX-License-Identifier: Apache-2.0
//
// One line on a terminal's stderr for work that takes over a second: what is done, for how long,
// and how far it is where that is known. Nothing where stderr is no terminal, and nothing is left
// of it afterwards.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "libgpuidle/model/recording.h"

namespace gpuidle::cli {

/// Visits along with another visitor, to tell how far a walk over a recording is. Context: tool.
class ProgressLine : public model::SliceVisitor {
 public:
  /// `what` is shown as "gpuidle: WHAT ...". It is shown from one second on until end().
  explicit ProgressLine(std::string what);
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// From here on slices of this recording tell how far it is.
  void follow(const model::RecordingInfo& info);
  void on_slice(const model::Slice& slice) override;
  /// Takes the line away; before anything else is printed.
  void end();

 private:
  void show_until_ended();
  std::string text(int seconds) const;

  std::string what_;
  std::optional<std::int64_t> start_ns_, end_ns_;
  std::atomic<int> percent_{-1};  // -1: not known
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
  std::thread thread_;  // none where stderr is no terminal
};

}  // namespace gpuidle::cli
