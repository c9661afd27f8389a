// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/cupti/cupti_source.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

#include "libgpuidle/base/own_thread.h"
#include "libgpuidle/cupti/cupti_choice.h"
#include "libgpuidle/cupti/cupti_layouts.h"
#include "libgpuidle/model/cuda_api.h"
#include "libgpuidle/record/gate.h"
#include "libgpuidle/record/host_call_recorder.h"

namespace gpuidle::cupti {
namespace {

constexpr std::int64_t kYieldTimeout_ns = 1'000'000'000;

constexpr CUpti_CallbackDomain kDomains[] = {CUPTI_CB_DOMAIN_RUNTIME_API,
                                             CUPTI_CB_DOMAIN_DRIVER_API};

}  // namespace

CuptiSource& CuptiSource::instance() {
  alignas(CuptiSource) static unsigned char storage[sizeof(CuptiSource)];
  static CuptiSource* const source = new (storage) CuptiSource;
  return *source;
}

base::Status CuptiSource::error(const char* call, CUptiResult result) const {
  return {base::StatusCode::unavailable,
          std::string(call) + " failed with " + api_.describe(result)};
}

void CuptiSource::give_up() {
  if (!has_seat_.exchange(false)) return;  // somebody else is at it, or did it
  for (const ActivityKindRow& row : kActivityKinds) api_.disable(row.kind);
  api_.unsubscribe(subscriber_);
}

void CuptiSource::yield_to(const char* name) noexcept {
  if (!has_seat_.load() || owner_pid_.load() != static_cast<std::int32_t>(getpid())) return;
  if (is_yielding_.exchange(true)) return;
  // The other client drops buffers that it does not know, so ours must come back before.
  wait_for_flush(request_flush(false), kYieldTimeout_ns);
  give_up();
  std::strncpy(yielded_to_.data(), name, yielded_to_.size() - 1);
  yielded_ns_.store(record::host_now_ns(), std::memory_order_release);
}

base::Status CuptiSource::start(const std::string& requested_path, int driver_major) {
  api_.shared_subscriber = nullptr;
  if (base::Status status = load(requested_path, driver_major, &api_); !status.ok()) return status;
  if (!buffers_.prepare(&count_records)) {
    return {base::StatusCode::unavailable, "no memory for CUPTI's activity buffers"};
  }
  owner_pid_.store(static_cast<std::int32_t>(getpid()));
  forget_earlier_records();
  std::string why_not_shared;
  if (subscribe_shared()) {
    const base::Status shared = switch_on();
    if (shared.ok()) return {};
    // The calls for shared subscribers are young; those for a sole one still see the device.
    give_up();
    api_.shared_subscriber = nullptr;
    why_not_shared = "; beside other subscribers: " + shared.message();
  }
  base::Status status = subscribe_alone();
  if (status.ok()) status = switch_on();
  if (status.ok()) return status;
  give_up();
  return {status.code(), status.message() + why_not_shared};
}

std::string CuptiSource::release() const {
  return cupti_version_text(api_.version) + " " + api_.path;
}

base::Status CuptiSource::switch_on() {
  if (base::Status status = decoder_.prepare(api_); !status.ok()) return status;
  if (base::Status status = enable_activities(); !status.ok()) return status;
  if (base::Status status = enable_callbacks(); !status.ok()) return status;
  if (has_flush_thread_) return {};
  has_flush_thread_ = base::start_own_thread(
      "gpuidle-flush", [](void* self) { static_cast<CuptiSource*>(self)->flush_loop(); }, this);
  if (!has_flush_thread_) {
    return {base::StatusCode::unavailable, "cannot start a thread to flush CUPTI"};
  }
  return {};
}

// What an earlier recording of this process left: its records are no losses of this one.
void CuptiSource::forget_earlier_records() {
  for (;;) {
    const ActivityBuffers::Filled filled = buffers_.take();
    if (filled.data == nullptr) break;
    buffers_.release(filled);
  }
  forced_.store(false, std::memory_order_relaxed);
  dropped_records_ = 0;
  lost_before_ = buffers_.lost_records();
  yielded_to_.fill(0);
  yielded_ns_.store(0);
  is_yielding_.store(false);
}

// A shared seat needs every client to ask for it, the first included; where that is not so, the
// seat is ours alone or somebody else's.
bool CuptiSource::subscribe_shared() {
  if (!api_.can_share()) return false;
  SubscriberParams params;
  params.struct_size = sizeof(params);
  params.name = "libgpuidle";
  params.allow_multiple_subscribers = 1;
  if (api_.subscribe_v2(&subscriber_, &on_callback, this, &params) != CUPTI_SUCCESS) {
    subscriber_ = nullptr;
    return false;
  }
  api_.shared_subscriber = subscriber_;
  has_seat_.store(true);
  return true;
}

// Who has the seat that was refused to us; "" = not known.
std::string CuptiSource::seat_holder() {
  if (api_.subscribe_v2 == nullptr) return {};
  std::array<char, 256> name{};
  SubscriberParams params;
  params.struct_size = api_.version >= 130200 ? sizeof(params) : kSubscriberParamsSize_13_0;
  params.holder_name = name.data();
  params.holder_capacity = name.size() - 1;
  CUpti_SubscriberHandle unwanted = nullptr;
  if (api_.subscribe_v2(&unwanted, &on_callback, this, &params) == CUPTI_SUCCESS) {
    api_.unsubscribe(unwanted);
    return {};
  }
  // CUPTI puts "CUPTI for " before the name that the holder gave, if it gave one.
  std::string holder = name.data();
  if (holder == "CUPTI for " || holder == "CUPTI for") holder.clear();
  return holder;
}

base::Status CuptiSource::subscribe_alone() {
  const CUptiResult result = api_.subscribe(&subscriber_, &on_callback, this);
  if (result == CUPTI_SUCCESS) {
    has_seat_.store(true);
    return {};
  }
  subscriber_ = nullptr;
  std::string message = "cuptiSubscribe failed with " + api_.describe(result);
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    const std::string holder = seat_holder();
    message += holder.empty() ? ": another profiler or debugger uses CUPTI in this process"
                              : ": CUPTI is in use by '" + holder + "'";
  }
  return {base::StatusCode::unavailable, message};
}

CUptiResult CuptiSource::register_buffers() {
  if (is_shared()) {
    return api_.register_callbacks_v2(subscriber_, &on_buffer_requested_shared,
                                      &on_buffer_completed_shared);
  }
  return api_.activity_register_callbacks(&on_buffer_requested, &on_buffer_completed);
}

base::Status CuptiSource::enable_activities() {
  // The default is a truncated pthread_self(); an old CUPTI without the call only loses the names
  // of threads in overhead records. Not for shared subscribers, who have no such call.
  if (api_.set_thread_id_type != nullptr && !is_shared()) {
    api_.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  }
  CUptiResult result = register_buffers();
  if (result != CUPTI_SUCCESS) return error("cuptiActivityRegisterCallbacks", result);
  // Kernels and copies are what busy time is made of; the other kinds only add detail.
  result = api_.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result != CUPTI_SUCCESS) return error("cuptiActivityEnable(CONCURRENT_KERNEL)", result);
  result = api_.enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  if (result != CUPTI_SUCCESS) return error("cuptiActivityEnable(MEMCPY)", result);
  result = api_.enable(CUPTI_ACTIVITY_KIND_MEMSET);
  if (result != CUPTI_SUCCESS) return error("cuptiActivityEnable(MEMSET)", result);
  api_.enable(CUPTI_ACTIVITY_KIND_MEMCPY2);
  api_.enable(CUPTI_ACTIVITY_KIND_OVERHEAD);
  if (is_shared() || api_.activity_enable_and_dump == nullptr ||
      api_.activity_enable_and_dump(CUPTI_ACTIVITY_KIND_DEVICE) != CUPTI_SUCCESS) {
    api_.enable(CUPTI_ACTIVITY_KIND_DEVICE);
  }
  return {};
}

base::Status CuptiSource::enable_callbacks() {
  for (const CUpti_CallbackDomain domain : kDomains) {
    RowOfId& rows = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime_rows_ : driver_rows_;
    rows.fill(model::kNoCudaApi);
    for (CUpti_CallbackId id = 1; id < kMaxCallbackIds; ++id) {
      const char* name = nullptr;
      if (api_.get_callback_name(domain, id, &name) != CUPTI_SUCCESS || name == nullptr) continue;
      const std::uint16_t row = model::cuda_api_row(model::without_variant(name));
      if (row == model::kNoCudaApi) continue;
      const CUptiResult result = api_.enable_callback(1, subscriber_, domain, id);
      if (result != CUPTI_SUCCESS) return error("cuptiEnableCallback", result);
      rows[id] = row;
    }
  }
  return {};
}

void CuptiSource::on_callback(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                              const void* data) {
  if (record::g_gate.epoch() == 0 || id >= kMaxCallbackIds) return;
  const auto* source = static_cast<const CuptiSource*>(self);
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  const int host_errno = errno;
  const std::uint16_t row = domain == CUPTI_CB_DOMAIN_RUNTIME_API  ? source->runtime_rows_[id]
                            : domain == CUPTI_CB_DOMAIN_DRIVER_API ? source->driver_rows_[id]
                                                                   : model::kNoCudaApi;
  if (row != model::kNoCudaApi) {
    if (call->callbackSite == CUPTI_API_ENTER) {
      record::g_recorder.enter(row, model::kCudaApis[row].role, call->correlationId);
    } else {
      // cudaError_t and CUresult are both ints; the pointer is only valid at exit.
      const auto* result = static_cast<const std::int32_t*>(call->functionReturnValue);
      record::g_recorder.exit(result == nullptr ? 0 : *result);
    }
  }
  errno = host_errno;
}

void CuptiSource::on_buffer_requested(std::uint8_t** buffer, std::size_t* bytes,
                                      std::size_t* max_records) {
  const int host_errno = errno;
  *buffer = instance().buffers_.request();
  *bytes = *buffer == nullptr ? 0 : ActivityBuffers::kBufferBytes;
  *max_records = 0;  // as many as fit
  errno = host_errno;
}

void CuptiSource::on_buffer_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                                      std::size_t valid_bytes) {
  const int host_errno = errno;
  instance().buffers_.complete(buffer, valid_bytes);
  errno = host_errno;
}

void CuptiSource::on_buffer_requested_shared(std::uint8_t** buffer, std::size_t* bytes,
                                             std::size_t* max_records, void*) {
  on_buffer_requested(buffer, bytes, max_records);
}

void CuptiSource::on_buffer_completed_shared(std::uint8_t* buffer, std::size_t bytes,
                                             std::size_t valid_bytes, void*) {
  on_buffer_completed(nullptr, 0, buffer, bytes, valid_bytes);
}

std::uint64_t CuptiSource::count_records(std::uint8_t* buffer, std::size_t valid_bytes) {
  std::uint64_t count = 0;
  CUpti_Activity* record = nullptr;
  while (instance().api_.next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    ++count;
  }
  return count;
}

std::uint32_t CuptiSource::request_flush(bool forced) {
  if (forced) forced_.store(true, std::memory_order_relaxed);
  const std::uint32_t number = flushes_wanted_.fetch_add(1, std::memory_order_release) + 1;
  base::futex_wake(flushes_wanted_);
  return number;
}

bool CuptiSource::wait_for_flush(std::uint32_t number, std::int64_t timeout_ns) const {
  const std::int64_t deadline_ns = record::host_now_ns() + timeout_ns;
  for (;;) {
    const std::uint32_t done = flushes_done_.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(done - number) >= 0) return true;
    const std::int64_t left_ns = deadline_ns - record::host_now_ns();
    if (left_ns <= 0) return false;
    base::futex_wait(flushes_done_, done, left_ns);
  }
}

// A thread of its own: released CUPTIs have hung in FlushAll, and then host calls must still be
// drained and written, and the process must still be able to end.
void CuptiSource::flush_loop() {
  for (;;) {
    const std::uint32_t wanted = flushes_wanted_.load(std::memory_order_acquire);
    if (wanted == flushes_done_.load(std::memory_order_relaxed)) {
      base::futex_wait(flushes_wanted_, wanted, 1'000'000'000);
      continue;
    }
    const bool forced = forced_.load(std::memory_order_relaxed);
    // Another client's buffers are not ours to flush.
    if (yielded_ns() == 0) {
      api_.activity_flush_all(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
    }
    flushes_done_.store(wanted, std::memory_order_release);
    base::futex_wake(flushes_done_);
  }
}

std::uint64_t CuptiSource::lost_records() {
  const std::uint64_t given_up = buffers_.lost_records() - lost_before_;
  if (is_shared()) return given_up;  // the count has no form for shared subscribers
  std::size_t dropped = 0;           // since the last call: CUPTI's counter resets when it is read
  if (yielded_ns() == 0 &&
      api_.activity_get_num_dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS) {
    dropped_records_ += dropped;
  }
  return dropped_records_ + given_up;
}

}  // namespace gpuidle::cupti
