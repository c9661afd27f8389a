// SPDX-License-Identifier: Apache-2.0
// Versions, names, ids, and the switches that change nothing in a simulation.
#include <cstring>
#include <iterator>

#include "cupti/release.h"
#include "cupti/state.h"
#include "device/settings.h"

namespace simcupti {
namespace {

#include "cupti_names.inc"

thread_local CUptiResult last_error = CUPTI_SUCCESS;

const char* const kResourceNames[] = {
    "INVALID",        "CONTEXT_CREATED",         "CONTEXT_DESTROY_STARTING",
    "STREAM_CREATED", "STREAM_DESTROY_STARTING", "CU_INIT_FINISHED"};

struct ResultRow {
  CUptiResult code;
  const char* name;
};
#define SIMCUPTI_RESULT(code) \
  { code, #code }
const ResultRow kResults[] = {
    SIMCUPTI_RESULT(CUPTI_SUCCESS),
    SIMCUPTI_RESULT(CUPTI_ERROR_INVALID_PARAMETER),
    SIMCUPTI_RESULT(CUPTI_ERROR_INVALID_DEVICE),
    SIMCUPTI_RESULT(CUPTI_ERROR_INVALID_CONTEXT),
    SIMCUPTI_RESULT(CUPTI_ERROR_INVALID_OPERATION),
    SIMCUPTI_RESULT(CUPTI_ERROR_OUT_OF_MEMORY),
    SIMCUPTI_RESULT(CUPTI_ERROR_HARDWARE),
    SIMCUPTI_RESULT(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT),
    SIMCUPTI_RESULT(CUPTI_ERROR_API_NOT_IMPLEMENTED),
    SIMCUPTI_RESULT(CUPTI_ERROR_MAX_LIMIT_REACHED),
    SIMCUPTI_RESULT(CUPTI_ERROR_NOT_READY),
    SIMCUPTI_RESULT(CUPTI_ERROR_NOT_COMPATIBLE),
    SIMCUPTI_RESULT(CUPTI_ERROR_NOT_INITIALIZED),
    SIMCUPTI_RESULT(CUPTI_ERROR_QUEUE_EMPTY),
    SIMCUPTI_RESULT(CUPTI_ERROR_INVALID_HANDLE),
    SIMCUPTI_RESULT(CUPTI_ERROR_INVALID_STREAM),
    SIMCUPTI_RESULT(CUPTI_ERROR_INVALID_KIND),
    SIMCUPTI_RESULT(CUPTI_ERROR_DISABLED),
    SIMCUPTI_RESULT(CUPTI_ERROR_NOT_SUPPORTED),
    SIMCUPTI_RESULT(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES),
    SIMCUPTI_RESULT(CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED),
    SIMCUPTI_RESULT(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
    SIMCUPTI_RESULT(CUPTI_ERROR_UNKNOWN),
};

}  // namespace

uint32_t reported_version() {
  int64_t other = simgpu::fault("cupti_version");
  return other > 0 ? static_cast<uint32_t>(other) : kReleaseVersion;
}

CUptiResult result(CUptiResult value) {
  if (value != CUPTI_SUCCESS) last_error = value;
  return value;
}

}  // namespace simcupti

using simcupti::hub;
using simcupti::result;

CUptiResult CUPTI(cuptiGetVersion)(uint32_t* version) {
  *version = simcupti::reported_version();
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiGetTimestamp)(uint64_t* timestamp) {
  if (timestamp == nullptr) return result(CUPTI_ERROR_INVALID_PARAMETER);
  *timestamp = simcupti::timestamp_ns();
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiGetLastError)(void) {
  CUptiResult value = simcupti::last_error;
  simcupti::last_error = CUPTI_SUCCESS;
  return value;
}

CUptiResult CUPTI(cuptiGetResultString)(CUptiResult code, const char** str) {
  for (const auto& row : simcupti::kResults) {
    if (row.code == code) {
      *str = row.name;
      return CUPTI_SUCCESS;
    }
  }
  return result(CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult CUPTI(cuptiGetErrorMessage)(CUptiResult code, const char** str) {
  return CUPTI(cuptiGetResultString)(code, str);
}

CUptiResult CUPTI(cuptiGetCallbackName)(CUpti_CallbackDomain domain, uint32_t cbid,
                                        const char** name) {
  *name = nullptr;
  if (!simcupti::knows_call(domain, cbid)) return result(CUPTI_ERROR_INVALID_PARAMETER);
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid < std::size(simcupti::kDriverNames)) {
    *name = simcupti::kDriverNames[cbid];
  } else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && cbid < std::size(simcupti::kRuntimeNames)) {
    *name = simcupti::kRuntimeNames[cbid];
  } else if (domain == CUPTI_CB_DOMAIN_RESOURCE && cbid < std::size(simcupti::kResourceNames)) {
    *name = simcupti::kResourceNames[cbid];
  }
  return *name ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult CUPTI(cuptiGetContextId)(CUcontext context, uint32_t* contextId) {
  if (hub() == nullptr) return result(CUPTI_ERROR_NOT_INITIALIZED);
  *contextId = hub()->context_id(context);
  return *contextId ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_CONTEXT);
}

CUptiResult CUPTI(cuptiGetDeviceId)(CUcontext context, uint32_t* deviceId) {
  if (hub() == nullptr) return result(CUPTI_ERROR_NOT_INITIALIZED);
  *deviceId = hub()->context_device(context);
  return *deviceId != UINT32_MAX ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_CONTEXT);
}

CUptiResult CUPTI(cuptiGetStreamIdEx)(CUcontext context, CUstream stream, uint8_t perThreadStream,
                                      uint32_t* streamId) {
  if (hub() == nullptr) return result(CUPTI_ERROR_NOT_INITIALIZED);
  *streamId = hub()->stream_id(context, stream, perThreadStream != 0);
  return *streamId != UINT32_MAX ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_STREAM);
}

CUptiResult CUPTI(cuptiGetStreamId)(CUcontext context, CUstream stream, uint32_t* streamId) {
  return CUPTI(cuptiGetStreamIdEx)(context, stream, 0, streamId);
}

CUptiResult CUPTI(cuptiGetGraphId)(CUgraph graph, uint32_t* pId) {
  if (hub() == nullptr) return result(CUPTI_ERROR_NOT_INITIALIZED);
  *pId = hub()->graph_id(graph);
  return *pId ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult CUPTI(cuptiGetGraphExecId)(CUgraphExec graphExec, uint32_t* pId) {
  if (hub() == nullptr) return result(CUPTI_ERROR_NOT_INITIALIZED);
  *pId = hub()->graph_exec_id(graphExec);
  return *pId ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult CUPTI(cuptiGetGraphNodeId)(CUgraphNode node, uint64_t* nodeId) {
  if (hub() == nullptr) return result(CUPTI_ERROR_NOT_INITIALIZED);
  *nodeId = hub()->graph_node_id(node);
  return *nodeId ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult CUPTI(cuptiComputeCapabilitySupported)(int major, int minor, int* support) {
  *support = major * 10 + minor >= 75;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiDeviceSupported)(CUdevice dev, int* support) {
  *support = hub() && dev >= 0 && dev < hub()->device_count();
  return *support ? CUPTI_SUCCESS : result(CUPTI_ERROR_INVALID_DEVICE);
}

CUptiResult CUPTI(cuptiDeviceVirtualizationMode)(CUdevice, CUpti_DeviceVirtualizationMode* mode) {
  *mode = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiActivityEnableLatencyTimestamps)(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult CUPTI(cuptiActivityEnableLaunchAttributes)(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult CUPTI(cuptiActivityEnableDeviceGraph)(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult CUPTI(cuptiActivityEnableAllocationSource)(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult CUPTI(cuptiActivityEnableAllSyncRecords)(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult CUPTI(cuptiActivityEnableCudaEventDeviceTimestamps)(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult CUPTI(cuptiActivityEnableHWTrace)(uint8_t enable) {
  return enable ? result(CUPTI_ERROR_NOT_SUPPORTED) : CUPTI_SUCCESS;
}
