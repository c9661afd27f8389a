// SPDX-License-Identifier: Apache-2.0
// What is done to the times of a record on its way to the client.
#include <atomic>
#include <mutex>

#include "cupti/state.h"

namespace simcupti {
namespace {

struct Anchor {
  CUpti_TimestampCallbackFunc callback = nullptr;
  int64_t from = 0;
  int64_t to = 0;
};
std::mutex mutex;
Anchor anchor;

template <typename Visitor>
void visit_device_work(void* record, Visitor visit) {
  switch (static_cast<CUpti_Activity*>(record)->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return visit(static_cast<CUpti_ActivityKernel10*>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return visit(static_cast<CUpti_ActivityMemcpy6*>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return visit(static_cast<CUpti_ActivityMemcpyPtoP4*>(record));
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return visit(static_cast<CUpti_ActivityMemset4*>(record));
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return visit(static_cast<CUpti_ActivityGraphTrace2*>(record));
    default:
      return;
  }
}

template <typename Visitor>
void visit_timed(void* record, Visitor visit) {
  visit_device_work(record, visit);
  switch (static_cast<CUpti_Activity*>(record)->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return visit(static_cast<CUpti_ActivityAPI*>(record));
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return visit(static_cast<CUpti_ActivitySynchronization2*>(record));
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return visit(static_cast<CUpti_ActivityOverhead3*>(record));
    default:
      return;
  }
}

}  // namespace

void cut_running_record(void* record, int64_t now_ns) {
  auto now = static_cast<uint64_t>(now_ns + hub()->realtime_offset_ns());
  visit_device_work(record, [now](auto* typed) {
    typed->end = 0;
    if (typed->start > now) typed->start = 0;
  });
}

// As the real one, in post-processing: a line through the clocks' readings at the registration and
// at the delivery.
TimestampConversion::TimestampConversion() {
  std::lock_guard<std::mutex> lock(mutex);
  if (anchor.callback == nullptr) return;
  active_ = true;
  from_ = static_cast<int64_t>(timestamp_ns());
  to_ = static_cast<int64_t>(anchor.callback());
  constexpr int64_t kShortestBaseNs = 1'000'000;
  if (from_ - anchor.from > kShortestBaseNs) {
    slope_ = static_cast<double>(to_ - anchor.to) / static_cast<double>(from_ - anchor.from);
  }
}

void TimestampConversion::apply(void* record) const {
  if (!active_) return;
  auto convert = [this](uint64_t time) {
    auto distance = static_cast<double>(static_cast<int64_t>(time) - from_);
    return static_cast<uint64_t>(to_ + static_cast<int64_t>(distance * slope_));
  };
  visit_timed(record, [convert](auto* typed) {
    if (typed->start != 0) typed->start = convert(typed->start);
    if (typed->end != 0) typed->end = convert(typed->end);
  });
}

}  // namespace simcupti

CUptiResult CUPTI(cuptiActivityRegisterTimestampCallback)(
    CUpti_TimestampCallbackFunc funcTimestamp) {
  if (funcTimestamp == nullptr) return simcupti::result(CUPTI_ERROR_INVALID_PARAMETER);
  std::lock_guard<std::mutex> lock(simcupti::mutex);
  simcupti::anchor.callback = funcTimestamp;
  simcupti::anchor.from = static_cast<int64_t>(simcupti::timestamp_ns());
  simcupti::anchor.to = static_cast<int64_t>(funcTimestamp());
  return CUPTI_SUCCESS;
}
