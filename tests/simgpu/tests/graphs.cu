// SPDX-License-Identifier: Apache-2.0
// Capture, graphs built by hand, instantiation, launch, update. Run with SIMGPU_DEFAULT_KERNEL=1ms.
#include <cmath>

#include "check.h"

__global__ void node_kernel(int* x) { *x = 1; }

// Device time of one launch. It stands behind a kernel, so a pause of this thread does not count.
static double launch_ms(cudaGraphExec_t exec, cudaStream_t stream) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  node_kernel<<<1, 32, 0, stream>>>(nullptr);
  cudaEventRecord(begin, stream);
  CHECK_EQ(cudaGraphLaunch(exec, stream), 0);
  cudaEventRecord(end, stream);
  CHECK_EQ(cudaStreamSynchronize(stream), 0);
  float ms = 0;
  CHECK_EQ(cudaEventElapsedTime(&ms, begin, end), 0);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return ms;
}

static bool near(double value, double expected) {
  if (std::fabs(value - expected) < 0.5) return true;
  std::printf("%f is not near %f\n", value, expected);
  return false;
}

static void capture_with_fork_and_join(int* x) {
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEvent_t fork, join;
  cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  int* host;
  int* device;
  cudaMallocHost(&host, 8);
  cudaMalloc(&device, 4);
  host[0] = 77;
  host[1] = 0;
  CHECK_EQ(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), 0);
  cudaStreamCaptureStatus status;
  CHECK_EQ(cudaStreamIsCapturing(a, &status), 0);
  CHECK_EQ(status, cudaStreamCaptureStatusActive);
  cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, a);
  cudaEventRecord(fork, a);
  cudaStreamWaitEvent(b, fork, 0);
  node_kernel<<<1, 32, 0, a>>>(x);
  node_kernel<<<1, 32, 0, b>>>(x);
  cudaEventRecord(join, b);
  cudaStreamWaitEvent(a, join, 0);
  node_kernel<<<1, 32, 0, a>>>(x);
  cudaMemcpyAsync(host + 1, device, 4, cudaMemcpyDeviceToHost, a);
  cudaGraph_t graph;
  CHECK_EQ(cudaStreamEndCapture(a, &graph), 0);
  CHECK_EQ(host[1], 0);  // nothing ran
  size_t nodes = 0, edges = 0;
  CHECK_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), 0);
  CHECK_EQ(nodes, 5);
  CHECK_EQ(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), 0);
  CHECK_EQ(edges, 5);
  cudaGraphExec_t exec;
  CHECK_EQ(cudaGraphInstantiate(&exec, graph, 0), 0);
  for (int i = 0; i < 3; ++i) {
    host[1] = 0;
    CHECK(eventually(
        [&] { return near(launch_ms(exec, a), 2.0); }));  // two kernels side by side, then one
    CHECK_EQ(host[1], 77);
  }
  CHECK_EQ(cudaGraphExecDestroy(exec), 0);
  CHECK_EQ(cudaGraphDestroy(graph), 0);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaFreeHost(host);
  cudaFree(device);
}

static void capture_refuses_what_it_must(int* x) {
  cudaStream_t stream, other;
  cudaStreamCreate(&stream);
  cudaStreamCreate(&other);
  cudaGraph_t graph;
  CHECK_EQ(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal),
           cudaErrorStreamCaptureUnsupported);
  CHECK_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  CHECK_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  CHECK_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  node_kernel<<<1, 32, 0, cudaStreamLegacy>>>(
      x);  // the legacy stream would wait for the captured one
  CHECK_EQ(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
  cudaStreamEndCapture(stream, &graph);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  cudaEvent_t event;
  cudaEventCreate(&event);
  cudaEventRecord(event, stream);
  cudaStreamWaitEvent(other, event, 0);
  node_kernel<<<1, 32, 0, other>>>(x);
  CHECK_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
  cudaGetLastError();
  node_kernel<<<1, 32, 0, stream>>>(x);
  CHECK_EQ(cudaGetLastError(), 0);
  CHECK_EQ(cudaStreamSynchronize(stream), 0);
}

struct Seen {
  int count = 0;
};

static void graph_by_hand(int* x) {
  cudaGraph_t graph, child;
  cudaGraphCreate(&graph, 0);
  cudaGraphCreate(&child, 0);
  void* arguments[] = {&x};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(node_kernel);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(32);
  kernel.kernelParams = arguments;
  Seen seen;
  cudaHostNodeParams host{[](void* p) { ++static_cast<Seen*>(p)->count; }, &seen};
  cudaMemsetParams set{};
  set.dst = x;
  set.elementSize = 4;
  set.value = 0x01020304;
  set.width = 1;
  set.height = 1;
  cudaGraphNode_t first, second, third, fourth, inner;
  CHECK_EQ(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &kernel), 0);
  CHECK_EQ(cudaGraphAddHostNode(&second, graph, &first, 1, &host), 0);
  CHECK_EQ(cudaGraphAddMemsetNode(&third, graph, &second, 1, &set), 0);
  CHECK_EQ(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &kernel), 0);
  CHECK_EQ(cudaGraphAddChildGraphNode(&fourth, graph, &third, 1, child), 0);
  cudaGraphExec_t exec;
  CHECK_EQ(cudaGraphInstantiate(&exec, graph, 0), 0);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  int launches = 0;
  CHECK(eventually([&] {
    ++launches;
    return near(launch_ms(exec, stream), 2.0);
  }));
  CHECK_EQ(seen.count, launches);
  int value = 0;
  cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost);
  CHECK_EQ(value, 0x01020304);
  cudaGraphExecUpdateResultInfo info;
  CHECK_EQ(cudaGraphExecUpdate(exec, graph, &info), 0);
  CHECK_EQ(cudaGraphExecUpdate(exec, child, &info), cudaErrorGraphExecUpdateFailure);
  cudaGetLastError();
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

int main() {
  int* x;
  CHECK_EQ(cudaMalloc(&x, 64), 0);
  capture_with_fork_and_join(x);
  capture_refuses_what_it_must(x);
  graph_by_hand(x);
  return finish_checks();
}
