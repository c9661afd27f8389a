// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include "libgpuidle/report/format.h"

namespace gpuidle::cli {

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) == 0) return;
  try {
    thread_ = std::thread(&ProgressLine::show_until_ended, this);
  } catch (const std::system_error&) {
    // The work is done without being watched.
  }
}

ProgressLine::~ProgressLine() { end(); }

void ProgressLine::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ProgressLine::follow(const model::RecordingInfo& info) {
  start_ns_ = info.recording_start_ns;
  end_ns_ = info.recording_end_ns;
}

void ProgressLine::on_slice(const model::Slice& slice) {
  if (!start_ns_ || !end_ns_ || *end_ns_ <= *start_ns_) return;
  const double share =
      static_cast<double>(slice.end_ns - *start_ns_) / static_cast<double>(*end_ns_ - *start_ns_);
  percent_.store(static_cast<int>(100 * std::clamp(share, 0.0, 1.0)), std::memory_order_relaxed);
}

std::string ProgressLine::text(int seconds) const {
  const int percent = percent_.load(std::memory_order_relaxed);
  std::string line = fmt::format("gpuidle: {} ... {} s", what_, seconds);
  if (percent >= 0) line += fmt::format(", {} %", percent);
  return report::elide(line, report::kColumns - 1);
}

void ProgressLine::show_until_ended() {
  constexpr const char* kEraseLine = "\r\x1b[K";
  std::unique_lock<std::mutex> lock(mutex_);
  int seconds = 0;
  while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return has_ended_; })) {
    std::fprintf(stderr, "%s%s", kEraseLine, text(++seconds).c_str());
    std::fflush(stderr);
  }
  if (seconds > 0) std::fputs(kEraseLine, stderr);
}

}  // namespace gpuidle::cli
