// SPDX-License-Identifier: Apache-2.0
//
// CUPTI as a table of functions, opened at run time. Which library: one that is already mapped,
// then the neighbour of the mapped CUDA runtime, then the one that fits the driver. Never closed,
// never finalised: both crash in released versions.
#pragma once

#include <cupti.h>

#include <string>

#include "libgpuidle/base/status.h"

namespace gpuidle::cupti {

/// Every entry is non-null after load(), but for those marked optional.
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

  std::string path;           ///< file that was loaded
  std::uint32_t version = 0;  ///< cuptiGetVersion()

  /// "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)". Context: control | drain.
  std::string describe(CUptiResult result) const;
};

/// Opens CUPTI. `requested_path` (GPUIDLE_CUPTI_LIBRARY) wins if not empty; `driver_major` is the
/// CUDA major of the driver, 0 = not known. Errors: unavailable, with the libraries that were
/// tried. Context: control. Not from a hook: it takes the loader's lock.
base::Status load(const std::string& requested_path, int driver_major, CuptiApi* api);

}  // namespace gpuidle::cupti
