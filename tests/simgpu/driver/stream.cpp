// SPDX-License-Identifier: Apache-2.0
// Streams, events, host functions and stream capture.
#include <algorithm>

#include "device/clock.h"
#include "device/graph.h"
#include "device/schedule.h"
#include "device/settings.h"
#include "driver/driver.h"

using simgpu::Capture;
using simgpu::Context;
using simgpu::Event;
using simgpu::GraphNode;
using simgpu::need_context;
using simgpu::Stream;
using simgpu::to_event;
using simgpu::to_stream;

namespace {

CUstream handle(Stream* stream) { return reinterpret_cast<CUstream>(stream); }

#define SIMGPU_EVENT(variable, handle) \
  Event* variable = to_event(handle);  \
  if (variable == nullptr) return CUDA_ERROR_INVALID_HANDLE

CUresult record(CUevent hEvent, CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  SIMGPU_EVENT(event, hEvent);
  if (event->context->device != stream->context->device) return CUDA_ERROR_INVALID_HANDLE;
  return simgpu::record_event(event, stream);
}

}  // namespace

CUresult DRV(cuStreamCreate)(CUstream* phStream, unsigned int Flags) {
  SIMGPU_CONTEXT(context);
  if (phStream == nullptr || Flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *phStream = handle(simgpu::create_stream(context, Flags, 0));
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamCreateWithPriority)(CUstream* phStream, unsigned int flags, int priority) {
  SIMGPU_CONTEXT(context);
  if (phStream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *phStream = handle(simgpu::create_stream(context, flags, std::clamp(priority, -5, 0)));
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamDestroy_v2)(CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  if (stream->legacy || hStream == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  simgpu::destroy_stream(stream);
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamSynchronize)(CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  SIMGPU_TRY(simgpu::refuse_wait_in_capture(stream));
  simgpu::synchronize_stream(stream);
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamQuery)(CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  SIMGPU_TRY(simgpu::refuse_wait_in_capture(stream));
  return simgpu::is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult DRV(cuStreamWaitEvent)(CUstream hStream, CUevent hEvent, unsigned int) {
  SIMGPU_STREAM(stream, hStream);
  SIMGPU_EVENT(event, hEvent);
  return simgpu::wait_event(event, stream);
}

CUresult DRV(cuStreamGetPriority)(CUstream hStream, int* priority) {
  SIMGPU_STREAM(stream, hStream);
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamGetFlags)(CUstream hStream, unsigned int* flags) {
  SIMGPU_STREAM(stream, hStream);
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamGetId)(CUstream hStream, unsigned long long* streamId) {
  SIMGPU_STREAM(stream, hStream);
  *streamId = stream->id;
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamGetDevice)(CUstream hStream, CUdevice* device) {
  SIMGPU_STREAM(stream, hStream);
  *device = stream->context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamGetCtx)(CUstream hStream, CUcontext* pctx) {
  SIMGPU_STREAM(stream, hStream);
  *pctx = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamGetCtx_v2)(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  if (pGreenCtx) *pGreenCtx = nullptr;
  return DRV(cuStreamGetCtx)(hStream, pCtx);
}

CUresult DRV(cuLaunchHostFunc)(CUstream hStream, CUhostFn fn, void* userData) {
  SIMGPU_STREAM(stream, hStream);
  if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  simgpu::Work work;
  work.operation.kind = simgpu::OperationKind::host_function;
  work.operation.name = "host_function";
  work.host_function = fn;
  work.host_argument = userData;
  return simgpu::submit(stream, std::move(work), nullptr);
}

CUresult DRV(cuStreamAddCallback)(CUstream hStream, CUstreamCallback callback, void* userData,
                                  unsigned int) {
  struct Argument {
    CUstream stream;
    CUstreamCallback callback;
    void* user;
  };
  auto run = [](void* pointer) {
    auto* argument = static_cast<Argument*>(pointer);
    argument->callback(argument->stream, CUDA_SUCCESS, argument->user);
    delete argument;
  };
  if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIMGPU_STREAM(stream, hStream);
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return DRV(cuLaunchHostFunc)(hStream, run, new Argument{hStream, callback, userData});
}

CUresult DRV(cuEventCreate)(CUevent* phEvent, unsigned int Flags) {
  SIMGPU_CONTEXT(context);
  if (phEvent == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phEvent = reinterpret_cast<CUevent>(simgpu::create_event(context, Flags));
  return CUDA_SUCCESS;
}

CUresult DRV(cuEventDestroy_v2)(CUevent hEvent) {
  SIMGPU_EVENT(event, hEvent);
  simgpu::destroy_event(event);
  return CUDA_SUCCESS;
}

CUresult DRV(cuEventRecord)(CUevent hEvent, CUstream hStream) { return record(hEvent, hStream); }

CUresult DRV(cuEventRecordWithFlags)(CUevent hEvent, CUstream hStream, unsigned int) {
  return record(hEvent, hStream);
}

CUresult DRV(cuEventQuery)(CUevent hEvent) {
  SIMGPU_EVENT(event, hEvent);
  if (event->capture && !event->capture->streams.empty()) return CUDA_ERROR_CAPTURED_EVENT;
  return !event->recorded || simgpu::is_reached(event->mark) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult DRV(cuEventSynchronize)(CUevent hEvent) {
  SIMGPU_EVENT(event, hEvent);
  if (event->capture && !event->capture->streams.empty()) return CUDA_ERROR_CAPTURED_EVENT;
  simgpu::synchronize_event(event);
  return CUDA_SUCCESS;
}

CUresult DRV(cuEventElapsedTime_v2)(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  SIMGPU_EVENT(start, hStart);
  SIMGPU_EVENT(end, hEnd);
  if (!start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  if (!simgpu::is_reached(start->mark) || !simgpu::is_reached(end->mark)) {
    return CUDA_ERROR_NOT_READY;
  }
  *pMilliseconds =
      static_cast<float>(static_cast<double>(end->mark.end_ns() - start->mark.end_ns()) / 1e6);
  return CUDA_SUCCESS;
}

CUresult DRV(cuEventElapsedTime)(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return DRV(cuEventElapsedTime_v2)(pMilliseconds, hStart, hEnd);
}

CUresult DRV(cuStreamBeginCapture_v2)(CUstream hStream, CUstreamCaptureMode mode) {
  SIMGPU_STREAM(stream, hStream);
  simgpu::DeviceLock lock(simgpu::device_lock());
  return simgpu::begin_capture(stream, mode, nullptr);
}

CUresult DRV(cuStreamBeginCaptureToGraph)(CUstream hStream, CUgraph hGraph,
                                          const CUgraphNode* dependencies, const CUgraphEdgeData*,
                                          size_t numDependencies, CUstreamCaptureMode mode) {
  SIMGPU_STREAM(stream, hStream);
  simgpu::Graph* graph = simgpu::to_graph(hGraph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  simgpu::DeviceLock lock(simgpu::device_lock());
  SIMGPU_TRY(simgpu::begin_capture(stream, mode, graph));
  for (size_t i = 0; i < numDependencies; ++i) {
    stream->capture_tips.push_back(simgpu::to_node(dependencies[i]));
  }
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamEndCapture)(CUstream hStream, CUgraph* phGraph) {
  SIMGPU_STREAM(stream, hStream);
  simgpu::DeviceLock lock(simgpu::device_lock());
  simgpu::Graph* graph = nullptr;
  CUresult result = simgpu::end_capture(stream, &graph);
  if (phGraph) *phGraph = reinterpret_cast<CUgraph>(graph);
  return result;
}

CUresult DRV(cuStreamIsCapturing)(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  SIMGPU_STREAM(stream, hStream);
  simgpu::DeviceLock lock(simgpu::device_lock());
  if (stream->legacy && simgpu::refuse_legacy_in_capture(stream) != CUDA_SUCCESS) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  *captureStatus = stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
                   : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamGetCaptureInfo_v3)(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        const CUgraphEdgeData** edgeData_out,
                                        size_t* numDependencies_out) {
  SIMGPU_STREAM(stream, hStream);
  SIMGPU_TRY(DRV(cuStreamIsCapturing)(hStream, captureStatus_out));
  simgpu::DeviceLock lock(simgpu::device_lock());
  Capture* capture = stream->capture;
  if (capture == nullptr) return CUDA_SUCCESS;
  if (id_out) *id_out = capture->id;
  if (graph_out) *graph_out = reinterpret_cast<CUgraph>(capture->graph);
  if (dependencies_out) {
    *dependencies_out = reinterpret_cast<const CUgraphNode*>(stream->capture_tips.data());
  }
  if (edgeData_out) *edgeData_out = nullptr;
  if (numDependencies_out) *numDependencies_out = stream->capture_tips.size();
  return CUDA_SUCCESS;
}

CUresult DRV(cuStreamGetCaptureInfo_v2)(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        size_t* numDependencies_out) {
  return DRV(cuStreamGetCaptureInfo_v3)(hStream, captureStatus_out, id_out, graph_out,
                                        dependencies_out, nullptr, numDependencies_out);
}

CUresult DRV(cuStreamUpdateCaptureDependencies_v2)(CUstream hStream, CUgraphNode* dependencies,
                                                   const CUgraphEdgeData*, size_t numDependencies,
                                                   unsigned int flags) {
  SIMGPU_STREAM(stream, hStream);
  simgpu::DeviceLock lock(simgpu::device_lock());
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->capture_tips.clear();
  for (size_t i = 0; i < numDependencies; ++i) {
    stream->capture_tips.push_back(simgpu::to_node(dependencies[i]));
  }
  return CUDA_SUCCESS;
}

CUresult DRV(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode) {
  std::swap(*mode, simgpu::thread_state().capture_mode);
  return CUDA_SUCCESS;
}
