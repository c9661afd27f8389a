// SPDX-License-Identifier: Apache-2.0
//
// CUPTI as a table of functions, opened at run time. Which library: one that is already mapped,
// then the neighbour of the mapped CUDA runtime, then the one that fits the driver. Never closed,
// never finalised: both crash in released versions.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "libgpuidle/base/status.h"

namespace gpuidle::cupti {

/// CUpti_SubscriberParams as CUPTI 13.2 and newer define it; 13.0 ends after `holder_capacity`. The
/// build's headers may be older than the library, hence our own.
struct SubscriberParams {
  std::size_t struct_size = 0;
  const char* name = nullptr;
  char* holder_name = nullptr;  ///< out: who has the seat, when it is refused
  std::size_t holder_capacity = 0;
  std::uint8_t allow_multiple_subscribers = 0;
  std::uint8_t padding[7] = {};
};
inline constexpr std::size_t kSubscriberParamsSize_13_0 = 32;
static_assert(sizeof(SubscriberParams) == 40);

/// Every entry is non-null after load(), but for those marked optional. The functions below choose
/// between the calls for a sole and for a shared subscriber: in one process they cannot be mixed.
struct CuptiApi {
  decltype(&::cuptiGetVersion) get_version = nullptr;
  decltype(&::cuptiGetResultString) get_result_string = nullptr;
  decltype(&::cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&::cuptiSubscribe) subscribe = nullptr;
  decltype(&::cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&::cuptiEnableCallback) enable_callback = nullptr;
  decltype(&::cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) activity_register_callbacks = nullptr;
  decltype(&::cuptiActivityEnable) activity_enable = nullptr;
  decltype(&::cuptiActivityDisable) activity_disable = nullptr;
  decltype(&::cuptiActivityGetNextRecord) activity_get_next_record = nullptr;
  decltype(&::cuptiActivityFlushAll) activity_flush_all = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) activity_get_num_dropped_records = nullptr;
  decltype(&::cuptiSetThreadIdType) set_thread_id_type = nullptr;              // optional
  decltype(&::cuptiActivityEnableAndDump) activity_enable_and_dump = nullptr;  // optional, 11.7

  // Optional: shared subscribers, 13.3. The configuration of Enable_v2 and Disable_v2 may be null.
  using RequestShared = void(CUPTIAPI*)(std::uint8_t**, std::size_t*, std::size_t*, void*);
  using CompleteShared = void(CUPTIAPI*)(std::uint8_t*, std::size_t, std::size_t, void*);
  CUptiResult(CUPTIAPI* subscribe_v2)(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*,
                                      SubscriberParams*) = nullptr;
  CUptiResult(CUPTIAPI* register_callbacks_v2)(CUpti_SubscriberHandle, RequestShared,
                                               CompleteShared) = nullptr;
  CUptiResult(CUPTIAPI* enable_v2)(CUpti_SubscriberHandle, CUpti_ActivityKind, void*) = nullptr;
  CUptiResult(CUPTIAPI* disable_v2)(CUpti_SubscriberHandle, CUpti_ActivityKind, void*) = nullptr;
  CUptiResult(CUPTIAPI* get_next_record_v2)(CUpti_SubscriberHandle, std::uint8_t*, std::size_t,
                                            CUpti_Activity**) = nullptr;
  CUptiResult(CUPTIAPI* get_timestamp_v2)(CUpti_SubscriberHandle, std::uint64_t*) = nullptr;

  std::string path;                                    ///< file that was loaded
  std::uint32_t version = 0;                           ///< cuptiGetVersion()
  CUpti_SubscriberHandle shared_subscriber = nullptr;  ///< ours, where the seat is shared

  /// Whether this library can have several subscribers. In 13.2 that was a preview.
  bool can_share() const;

  CUptiResult enable(CUpti_ActivityKind kind) const;
  CUptiResult disable(CUpti_ActivityKind kind) const;
  CUptiResult next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                          CUpti_Activity** record) const;
  std::int64_t now() const;  ///< CUPTI's clock, ns

  /// "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)". Context: control | drain.
  std::string describe(CUptiResult result) const;
};

/// Opens CUPTI. `requested_path` (GPUIDLE_CUPTI_LIBRARY) wins if not empty; `driver_major` is the
/// CUDA major of the driver, 0 = not known. Errors: unavailable, with the libraries that were
/// tried; unsupported_version, for releases that cupti_choice.h refuses. Context: control. Not from
/// a hook: it takes the loader's lock.
base::Status load(const std::string& requested_path, int driver_major, CuptiApi* api);

}  // namespace gpuidle::cupti
