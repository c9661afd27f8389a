// SPDX-License-Identifier: Apache-2.0
//
// CUPTI as a source of truth: subscribes, turns its callbacks into host calls, enables the activity
// kinds and flushes them. Feeds record/ (host calls, on the host's threads) and session.cpp (filled
// buffers). One object per process, since CUPTI's state is process-wide.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "libgpuidle/base/status.h"
#include "libgpuidle/cupti/activity_buffers.h"
#include "libgpuidle/cupti/activity_decoder.h"
#include "libgpuidle/cupti/cupti_api.h"

namespace gpuidle::cupti {

/// Context: start() control; flush functions drain; the rest as said.
class CuptiSource {
 public:
  static CuptiSource& instance();  ///< never destroyed: CUPTI calls back during exit

  /// Opens CUPTI, becomes its subscriber, beside others where CUPTI can do that and else alone, and
  /// switches recording on. On failure everything that was switched on is switched off again and
  /// the message says who refused what.
  /// `driver_major` as for load().
  base::Status start(const std::string& requested_path, int driver_major);

  /// Switches recording off and gives the seat back; harmless if start() never succeeded. start()
  /// may follow.
  /// Buffers that CUPTI still holds stay its own. Context: control | drain.
  void give_up();

  /// Another client of this process, `name`, is about to take CUPTI: what is in flight is flushed,
  /// the kinds are disabled and the seat is given back. Nothing if we do not have it. Context: any
  /// host thread, outside CUPTI's callbacks; 1 s at most.
  void yield_to(const char* name) noexcept;
  /// When that was, on the host clock; 0 = we have not yielded. From then on nothing is asked of
  /// CUPTI.
  std::int64_t yielded_ns() const { return yielded_ns_.load(std::memory_order_acquire); }
  /// Who it was; valid once yielded_ns() is not 0.
  const char* yielded_to() const { return yielded_to_.data(); }

  /// True if other subscribers may be there beside us.
  bool is_shared() const { return api_.shared_subscriber != nullptr; }

  /// "12.4 /path/of/libcupti.so.12", after start(). Context: control.
  std::string release() const;

  /// CUPTI's own clock, ns. Context: any.
  std::int64_t now() const { return api_.now(); }

  /// Asks the flush thread for cuptiActivityFlushAll(forced). A request while one is under way is
  /// kept. Returns the number of the request.
  std::uint32_t request_flush(bool forced);
  /// Number of the last flush that has returned; it lags behind while CUPTI hangs.
  std::uint32_t flushes_done() const { return flushes_done_.load(std::memory_order_acquire); }
  /// Waits until flush `number` has returned, `timeout_ns` at most.
  bool wait_for_flush(std::uint32_t number, std::int64_t timeout_ns) const;

  /// Records since start() that CUPTI dropped or that found no room in the buffers.
  std::uint64_t lost_records();

  ActivityBuffers& buffers() { return buffers_; }
  ActivityDecoder& decoder() { return decoder_; }
  const CuptiApi& api() const { return api_; }

 private:
  CuptiSource() = default;

  void forget_earlier_records();
  bool subscribe_shared();
  base::Status subscribe_alone();
  std::string seat_holder();
  CUptiResult register_buffers();
  base::Status switch_on();
  base::Status enable_callbacks();
  base::Status enable_activities();
  base::Status error(const char* call, CUptiResult result) const;
  void flush_loop();
  static std::uint64_t count_records(std::uint8_t* buffer, std::size_t valid_bytes);

  static void CUPTIAPI on_callback(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void* data);
  static void CUPTIAPI on_buffer_requested(std::uint8_t** buffer, std::size_t* bytes,
                                           std::size_t* max_records);
  static void CUPTIAPI on_buffer_completed(CUcontext context, std::uint32_t stream,
                                           std::uint8_t* buffer, std::size_t bytes,
                                           std::size_t valid_bytes);
  static void CUPTIAPI on_buffer_requested_shared(std::uint8_t** buffer, std::size_t* bytes,
                                                  std::size_t* max_records, void* info);
  static void CUPTIAPI on_buffer_completed_shared(std::uint8_t* buffer, std::size_t bytes,
                                                  std::size_t valid_bytes, void* info);

  static constexpr std::size_t kMaxCallbackIds = 2048;
  using RowOfId = std::array<std::uint16_t, kMaxCallbackIds>;

  CuptiApi api_;
  ActivityBuffers buffers_;
  ActivityDecoder decoder_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  RowOfId runtime_rows_{};  // callback id -> row of model::kCudaApis
  RowOfId driver_rows_{};
  std::atomic<std::uint32_t> flushes_wanted_{0};  // also the futex the flush thread sleeps on
  std::atomic<std::uint32_t> flushes_done_{0};
  std::atomic<bool> forced_{false};
  std::atomic<bool> has_seat_{false};
  std::atomic<std::int32_t> owner_pid_{0};  // a forked child has no part in what its parent enabled
  std::atomic<bool> is_yielding_{false};
  std::atomic<std::int64_t> yielded_ns_{0};
  std::array<char, 256> yielded_to_{};
  bool has_flush_thread_ = false;
  std::uint64_t dropped_records_ = 0;  // by CUPTI in this recording, summed up
  std::uint64_t lost_before_ = 0;      // of the buffers, in earlier recordings
};

}  // namespace gpuidle::cupti
