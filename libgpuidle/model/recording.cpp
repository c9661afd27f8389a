// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/model/recording.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace gpuidle::model {
namespace {

// Slices of a recording in memory hold about this many calls, so that visitors which keep a
// bounded table of calls in flight see the same flow as from a file.
constexpr std::size_t kRecordsPerSlice = 32 * 1024;

template <typename Row, typename Time>
void copy_until(const std::vector<Row>& all, std::size_t& next, std::int64_t until_ns, Time time,
                std::vector<Row>& out) {
  const std::size_t first = next;
  while (next < all.size() && time(all[next]) < until_ns) ++next;
  out.assign(all.begin() + static_cast<std::ptrdiff_t>(first),
             all.begin() + static_cast<std::ptrdiff_t>(next));
}

constexpr auto kStart = [](const auto& row) { return row.start_ns; };

}  // namespace

std::uint64_t Losses::total() const {
  return std::accumulate(count.begin(), count.end(), std::uint64_t{0});
}

void Slice::clear() {
  activities.clear();
  calls.clear();
  markers.clear();
  overheads.clear();
  unobserved.clear();
  gaps.clear();
  samples.clear();
  memory.clear();
}

void Slice::sort() {
  // Ties are broken by content so that the order of arrival never shows.
  std::sort(activities.begin(), activities.end(), [](const auto& a, const auto& b) {
    return std::tie(a.start_ns, a.end_ns, a.device, a.stream, a.correlation, a.kernel, a.name) <
           std::tie(b.start_ns, b.end_ns, b.device, b.stream, b.correlation, b.kernel, b.name);
  });
  std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return std::tie(a.enter_ns, a.exit_ns, a.thread, a.correlation, a.api) <
           std::tie(b.enter_ns, b.exit_ns, b.thread, b.correlation, b.api);
  });
  std::sort(gaps.begin(), gaps.end(), [](const auto& a, const auto& b) {
    return std::tie(a.start_ns, a.end_ns, a.device) < std::tie(b.start_ns, b.end_ns, b.device);
  });
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
    return std::tie(a.start_ns, a.end_ns, a.thread, a.stack) <
           std::tie(b.start_ns, b.end_ns, b.thread, b.stack);
  });
  // Events of one moment keep the order of the file: the last of them has the totals that hold.
  std::stable_sort(memory.begin(), memory.end(),
                   [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  const auto by_start_and_name = [](const auto& a, const auto& b) {
    return std::tie(a.start_ns, a.end_ns, a.thread, a.name) <
           std::tie(b.start_ns, b.end_ns, b.thread, b.name);
  };
  std::sort(markers.begin(), markers.end(), by_start_and_name);
  std::sort(overheads.begin(), overheads.end(), by_start_and_name);
  std::sort(unobserved.begin(), unobserved.end(), [](const auto& a, const auto& b) {
    return std::tie(a.start_ns, a.end_ns, a.reason) < std::tie(b.start_ns, b.end_ns, b.reason);
  });
}

void MemoryRecording::seal() {
  records.sort();
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  const auto cover = [&](std::int64_t start_ns, std::int64_t until_ns) {
    begin_ns = std::min(begin_ns, start_ns);
    end_ns = std::max(end_ns, until_ns);
  };
  for (const auto& r : records.activities) cover(r.start_ns, r.end_ns);
  for (const auto& r : records.calls) cover(r.enter_ns, r.exit_ns);
  for (const auto& r : records.markers) cover(r.start_ns, r.end_ns);
  for (const auto& r : records.overheads) cover(r.start_ns, r.end_ns);
  for (const auto& r : records.unobserved) cover(r.start_ns, r.end_ns);
  for (const auto& r : records.gaps) cover(r.start_ns, r.end_ns);
  for (const auto& r : records.samples) cover(r.start_ns, r.end_ns);
  if (begin_ns > end_ns) begin_ns = end_ns = 0;
  records.begin_ns = begin_ns;
  records.end_ns = end_ns + 1;  // half-open: a record that starts at the very end is inside
}

base::Status MemoryRecording::visit(SliceVisitor& visitor) const {
  std::size_t activity = 0, call = 0, marker = 0, overhead = 0, unobserved = 0, gap = 0;
  std::size_t sample = 0, memory = 0;
  Slice slice;
  std::int64_t begin_ns = records.begin_ns;
  while (begin_ns < records.end_ns) {
    std::int64_t end_ns = records.end_ns;
    if (activity + kRecordsPerSlice < records.activities.size()) {
      end_ns = std::min(end_ns, records.activities[activity + kRecordsPerSlice].start_ns);
    }
    if (call + kRecordsPerSlice < records.calls.size()) {
      end_ns = std::min(end_ns, records.calls[call + kRecordsPerSlice].enter_ns - kCallLead_ns);
    }
    end_ns = std::max(end_ns, begin_ns + 1);
    const bool is_last = end_ns == records.end_ns;
    slice.begin_ns = begin_ns;
    slice.end_ns = end_ns;
    copy_until(records.activities, activity, end_ns, kStart, slice.activities);
    copy_until(
        records.calls, call,
        is_last ? std::numeric_limits<std::int64_t>::max() : end_ns + kCallLead_ns,
        [](const ApiCall& c) { return c.enter_ns; }, slice.calls);
    copy_until(records.markers, marker, end_ns, kStart, slice.markers);
    copy_until(records.overheads, overhead, end_ns, kStart, slice.overheads);
    copy_until(records.unobserved, unobserved, end_ns, kStart, slice.unobserved);
    copy_until(records.gaps, gap, end_ns, kStart, slice.gaps);
    copy_until(records.samples, sample, end_ns, kStart, slice.samples);
    // They may lie outside the bounds, which the other records set.
    copy_until(records.memory, memory, is_last ? std::numeric_limits<std::int64_t>::max() : end_ns,
               kStart, slice.memory);
    visitor.on_slice(slice);
    begin_ns = end_ns;
  }
  return {};
}

}  // namespace gpuidle::model
