// SPDX-License-Identifier: Apache-2.0
// Streams, events, host functions and stream capture.
#include "runtime/runtime.h"

using simrt::driver;
using simrt::finish;

cudaError_t RT(cudaStreamCreate)(cudaStream_t* pStream) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamCreate(pStream, 0));
}
cudaError_t RT(cudaStreamCreateWithFlags)(cudaStream_t* pStream, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamCreate(pStream, flags));
}
cudaError_t RT(cudaStreamCreateWithPriority)(cudaStream_t* pStream, unsigned int flags,
                                             int priority) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamCreateWithPriority(pStream, flags, priority));
}
cudaError_t RT(cudaStreamDestroy)(cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamDestroy(stream));
}
cudaError_t RT(cudaStreamSynchronize)(cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamSynchronize(stream));
}
cudaError_t RT(cudaStreamQuery)(cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamQuery(stream));
}
cudaError_t RT(cudaStreamWaitEvent)(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamWaitEvent(stream, event, flags));
}
cudaError_t RT(cudaStreamGetPriority)(cudaStream_t hStream, int* priority) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamGetPriority(hStream, priority));
}
cudaError_t RT(cudaStreamGetFlags)(cudaStream_t hStream, unsigned int* flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamGetFlags(hStream, flags));
}
cudaError_t RT(cudaStreamGetId)(cudaStream_t hStream, unsigned long long* streamId) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamGetId(hStream, streamId));
}
cudaError_t RT(cudaStreamGetDevice)(cudaStream_t hStream, int* device) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamGetDevice(hStream, device));
}
cudaError_t RT(cudaStreamAttachMemAsync)(cudaStream_t stream, void* devPtr, size_t length,
                                         unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamAttachMemAsync(stream, simrt::address(devPtr), length, flags));
}
cudaError_t RT(cudaLaunchHostFunc)(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  SIMRT_CONTEXT();
  return finish(driver().cuLaunchHostFunc(stream, fn, userData));
}

cudaError_t RT(cudaStreamAddCallback)(cudaStream_t stream, cudaStreamCallback_t callback,
                                      void* userData, unsigned int flags) {
  struct Argument {
    cudaStreamCallback_t callback;
    void* user;
  };
  CUstreamCallback run = [](CUstream driver_stream, CUresult status, void* pointer) {
    auto* argument = static_cast<Argument*>(pointer);
    argument->callback(driver_stream, static_cast<cudaError_t>(status), argument->user);
    delete argument;
  };
  SIMRT_CONTEXT();
  if (callback == nullptr) return simrt::fail(cudaErrorInvalidValue);
  return finish(driver().cuStreamAddCallback(stream, run, new Argument{callback, userData}, flags));
}

cudaError_t RT(cudaEventCreate)(cudaEvent_t* event) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventCreate(event, 0));
}
cudaError_t RT(cudaEventCreateWithFlags)(cudaEvent_t* event, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventCreate(event, flags));
}
cudaError_t RT(cudaEventDestroy)(cudaEvent_t event) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventDestroy(event));
}
cudaError_t RT(cudaEventRecord)(cudaEvent_t event, cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventRecord(event, stream));
}
cudaError_t RT(cudaEventRecordWithFlags)(cudaEvent_t event, cudaStream_t stream,
                                         unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventRecordWithFlags(event, stream, flags));
}
cudaError_t RT(cudaEventQuery)(cudaEvent_t event) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventQuery(event));
}
cudaError_t RT(cudaEventSynchronize)(cudaEvent_t event) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventSynchronize(event));
}
cudaError_t RT(cudaEventElapsedTime)(float* ms, cudaEvent_t start, cudaEvent_t end) {
  SIMRT_CONTEXT();
  return finish(driver().cuEventElapsedTime(ms, start, end));
}

cudaError_t RT(cudaStreamBeginCapture)(cudaStream_t stream, cudaStreamCaptureMode mode) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)));
}
cudaError_t RT(cudaStreamBeginCaptureToGraph)(cudaStream_t stream, cudaGraph_t graph,
                                              const cudaGraphNode_t* dependencies,
                                              const cudaGraphEdgeData* dependencyData,
                                              size_t numDependencies, cudaStreamCaptureMode mode) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamBeginCaptureToGraph(
      stream, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(dependencyData),
      numDependencies, static_cast<CUstreamCaptureMode>(mode)));
}
cudaError_t RT(cudaStreamEndCapture)(cudaStream_t stream, cudaGraph_t* pGraph) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamEndCapture(stream, pGraph));
}
cudaError_t RT(cudaStreamIsCapturing)(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)));
}
cudaError_t RT(cudaStreamGetCaptureInfo)(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                         unsigned long long* id_out, cudaGraph_t* graph_out,
                                         const cudaGraphNode_t** dependencies_out,
                                         const cudaGraphEdgeData** edgeData_out,
                                         size_t* numDependencies_out) {
  SIMRT_CONTEXT();
  cuuint64_t id = 0;
  CUresult result = driver().cuStreamGetCaptureInfo(
      stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &id, graph_out, dependencies_out,
      reinterpret_cast<const CUgraphEdgeData**>(edgeData_out), numDependencies_out);
  if (id_out) *id_out = id;
  return finish(result);
}
cudaError_t RT(cudaStreamUpdateCaptureDependencies)(cudaStream_t stream,
                                                    cudaGraphNode_t* dependencies,
                                                    const cudaGraphEdgeData* dependencyData,
                                                    size_t numDependencies, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuStreamUpdateCaptureDependencies(
      stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(dependencyData),
      numDependencies, flags));
}
cudaError_t RT(cudaThreadExchangeStreamCaptureMode)(cudaStreamCaptureMode* mode) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}
