// SPDX-License-Identifier: Apache-2.0
// The calls of CUPTI 13.3 that name a subscriber, as its public manual describes them: the build's
// headers are older and do not declare them. For subscribers that share only; a configuration
// (fields, filters) is not simulated and must be null. Their records come from activity.cpp.
#include "cupti/state.h"
#include "device/settings.h"

#define SIMCUPTI_SHARED extern "C" __attribute__((visibility("default"))) CUptiResult

namespace simcupti {
namespace {

// Finds the client of a call; in an older CUPTI there is no such call.
CUptiResult find_client(CUpti_SubscriberHandle subscriber, int* client) {
  if (reported_version() < kFirstSharedVersion) return CUPTI_ERROR_NOT_SUPPORTED;
  *client = shared_index(subscriber);
  return *client < 0 ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult set_kind_of(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind, bool enable,
                        const void* config) {
  int client = -1;
  if (CUptiResult status = find_client(subscriber, &client); status != CUPTI_SUCCESS) return status;
  if (config != nullptr) return CUPTI_ERROR_NOT_SUPPORTED;
  return set_kind(kind, enable, client);
}

CUptiResult register_callbacks(CUpti_SubscriberHandle subscriber, SharedRequest request,
                               SharedComplete complete) {
  int client = -1;
  if (CUptiResult status = find_client(subscriber, &client); status != CUPTI_SUCCESS) return status;
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  int64_t code = simgpu::fault("shared_register");
  if (code > 0) return static_cast<CUptiResult>(code);
  register_shared_callbacks(client, request, complete);
  return CUPTI_SUCCESS;
}

}  // namespace
}  // namespace simcupti

using simcupti::result;

SIMCUPTI_SHARED CUPTI(cuptiActivityRegisterCallbacks_v2)(CUpti_SubscriberHandle subscriber,
                                                         simcupti::SharedRequest request,
                                                         simcupti::SharedComplete complete) {
  return result(simcupti::register_callbacks(subscriber, request, complete));
}

SIMCUPTI_SHARED CUPTI(cuptiActivityEnable_v2)(CUpti_SubscriberHandle subscriber,
                                              CUpti_ActivityKind kind, void* config) {
  return result(simcupti::set_kind_of(subscriber, kind, true, config));
}

SIMCUPTI_SHARED CUPTI(cuptiActivityDisable_v2)(CUpti_SubscriberHandle subscriber,
                                               CUpti_ActivityKind kind, void* config) {
  return result(simcupti::set_kind_of(subscriber, kind, false, config));
}

SIMCUPTI_SHARED CUPTI(cuptiActivityGetNextRecord_v2)(CUpti_SubscriberHandle subscriber,
                                                     uint8_t* buffer, size_t validBufferSizeBytes,
                                                     CUpti_Activity** record) {
  int client = -1;
  CUptiResult status = simcupti::find_client(subscriber, &client);
  if (status != CUPTI_SUCCESS) return result(status);
  return cuptiActivityGetNextRecord(buffer, validBufferSizeBytes, record);
}

SIMCUPTI_SHARED CUPTI(cuptiGetTimestamp_v2)(CUpti_SubscriberHandle subscriber,
                                            uint64_t* timestamp) {
  int client = -1;
  CUptiResult status = simcupti::find_client(subscriber, &client);
  if (status != CUPTI_SUCCESS) return result(status);
  if (timestamp == nullptr) return result(CUPTI_ERROR_INVALID_PARAMETER);
  *timestamp = simcupti::timestamp_ns();
  return CUPTI_SUCCESS;
}
