// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/cupti/cupti_api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <vector>

#include "libgpuidle/cupti/cupti_choice.h"

namespace gpuidle::cupti {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

// First missing function, or nullptr.
const char* fill(void* library, CuptiApi* api) {
  find(library, "cuptiSetThreadIdType", &api->set_thread_id_type);
  find(library, "cuptiActivityEnableAndDump", &api->activity_enable_and_dump);
  find(library, "cuptiSubscribe_v2", &api->subscribe_v2);
  find(library, "cuptiActivityRegisterCallbacks_v2", &api->register_callbacks_v2);
  find(library, "cuptiActivityEnable_v2", &api->enable_v2);
  find(library, "cuptiActivityDisable_v2", &api->disable_v2);
  find(library, "cuptiActivityGetNextRecord_v2", &api->get_next_record_v2);
  find(library, "cuptiGetTimestamp_v2", &api->get_timestamp_v2);
  if (!find(library, "cuptiGetVersion", &api->get_version)) return "cuptiGetVersion";
  if (!find(library, "cuptiGetResultString", &api->get_result_string))
    return "cuptiGetResultString";
  if (!find(library, "cuptiGetTimestamp", &api->get_timestamp)) return "cuptiGetTimestamp";
  if (!find(library, "cuptiSubscribe", &api->subscribe)) return "cuptiSubscribe";
  if (!find(library, "cuptiUnsubscribe", &api->unsubscribe)) return "cuptiUnsubscribe";
  if (!find(library, "cuptiEnableCallback", &api->enable_callback)) return "cuptiEnableCallback";
  if (!find(library, "cuptiGetCallbackName", &api->get_callback_name))
    return "cuptiGetCallbackName";
  if (!find(library, "cuptiActivityRegisterCallbacks", &api->activity_register_callbacks)) {
    return "cuptiActivityRegisterCallbacks";
  }
  if (!find(library, "cuptiActivityEnable", &api->activity_enable)) return "cuptiActivityEnable";
  if (!find(library, "cuptiActivityDisable", &api->activity_disable)) return "cuptiActivityDisable";
  if (!find(library, "cuptiActivityGetNextRecord", &api->activity_get_next_record)) {
    return "cuptiActivityGetNextRecord";
  }
  if (!find(library, "cuptiActivityFlushAll", &api->activity_flush_all)) {
    return "cuptiActivityFlushAll";
  }
  if (!find(library, "cuptiActivityGetNumDroppedRecords", &api->activity_get_num_dropped_records)) {
    return "cuptiActivityGetNumDroppedRecords";
  }
  return nullptr;
}

}  // namespace

bool CuptiApi::can_share() const {
  return version >= 130300 && subscribe_v2 != nullptr && register_callbacks_v2 != nullptr &&
         enable_v2 != nullptr && disable_v2 != nullptr && get_next_record_v2 != nullptr &&
         get_timestamp_v2 != nullptr;
}

CUptiResult CuptiApi::enable(CUpti_ActivityKind kind) const {
  return shared_subscriber != nullptr ? enable_v2(shared_subscriber, kind, nullptr)
                                      : activity_enable(kind);
}

CUptiResult CuptiApi::disable(CUpti_ActivityKind kind) const {
  return shared_subscriber != nullptr ? disable_v2(shared_subscriber, kind, nullptr)
                                      : activity_disable(kind);
}

CUptiResult CuptiApi::next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                                  CUpti_Activity** record) const {
  return shared_subscriber != nullptr
             ? get_next_record_v2(shared_subscriber, buffer, valid_bytes, record)
             : activity_get_next_record(buffer, valid_bytes, record);
}

std::int64_t CuptiApi::now() const {
  std::uint64_t time_ns = 0;
  const CUptiResult result = shared_subscriber != nullptr
                                 ? get_timestamp_v2(shared_subscriber, &time_ns)
                                 : get_timestamp(&time_ns);
  return result == CUPTI_SUCCESS ? static_cast<std::int64_t>(time_ns) : 0;
}

std::string CuptiApi::describe(CUptiResult result) const {
  const char* text = nullptr;
  if (get_result_string == nullptr || get_result_string(result, &text) != CUPTI_SUCCESS) {
    text = nullptr;
  }
  const std::string number = std::to_string(static_cast<int>(result));
  return text == nullptr ? "CUPTI error " + number : std::string(text) + " (" + number + ")";
}

base::Status load(const std::string& requested_path, int driver_major, CuptiApi* api) {
  const std::vector<std::string> paths =
      cupti_candidates(requested_path, mapped_cuda(), driver_major);
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) continue;
    if (const char* missing = fill(library, api)) {
      return {base::StatusCode::unavailable, path + " lacks " + missing +
                                                 " (CUPTI 11.0 or newer "
                                                 "is needed)"};
    }
    api->path = path;
    if (link_map* map = nullptr; dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
      api->path = map->l_name;
    }
    // From 13.3 on it fails without a driver, as does everything else.
    if (const CUptiResult result = api->get_version(&api->version); result != CUPTI_SUCCESS) {
      return {base::StatusCode::unavailable, api->path + ": cuptiGetVersion failed with error " +
                                                 std::to_string(static_cast<int>(result))};
    }
    const std::string why_not = why_not_cupti(api->version, driver_major);
    if (why_not.empty()) return {};
    return {base::StatusCode::unsupported_version, api->path + " cannot be used: " + why_not};
  }
  if (!requested_path.empty()) {
    const char* why = dlerror();
    return {base::StatusCode::unavailable, "cannot open GPUIDLE_CUPTI_LIBRARY=" + requested_path +
                                               (why == nullptr ? "" : std::string(": ") + why)};
  }
  return {base::StatusCode::unavailable,
          "no libcupti found (tried the mapped CUDA runtime's folder, the loader's path and "
          "/usr/local/cuda; set GPUIDLE_CUPTI_LIBRARY)"};
}

}  // namespace gpuidle::cupti
