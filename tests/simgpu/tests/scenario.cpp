// SPDX-License-Identifier: Apache-2.0
// A program with one of everything, for the virtual clock: two runs leave the same timeline.
// With the argument "kill" it ends by SIGKILL in the middle.
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "check.h"
#include "named_kernel.h"

extern "C" void simcuda_host_work(long long ns);

int main(int argc, char** argv) {
  NamedKernel convolution("conv_forward"), reduction("reduce_sum");
  cudaStream_t a, b;
  CHECK_EQ(cudaStreamCreate(&a), 0);
  CHECK_EQ(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking), 0);
  static char host[1 << 16];
  void *device, *pinned;
  CHECK_EQ(cudaMalloc(&device, sizeof host), 0);
  CHECK_EQ(cudaMallocHost(&pinned, sizeof host), 0);
  cudaEvent_t event;
  cudaEventCreate(&event);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_EQ(cudaStreamBeginCapture(b, cudaStreamCaptureModeRelaxed), 0);
  convolution.launch(b);
  reduction.launch(b);
  CHECK_EQ(cudaStreamEndCapture(b, &graph), 0);
  CHECK_EQ(cudaGraphInstantiate(&exec, graph, 0), 0);
  for (int step = 0; step < 20; ++step) {
    CHECK_EQ(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice), 0);
    CHECK_EQ(convolution.launch(a), 0);
    CHECK_EQ(cudaEventRecord(event, a), 0);
    CHECK_EQ(cudaStreamWaitEvent(b, event, 0), 0);
    CHECK_EQ(reduction.launch(b), 0);
    CHECK_EQ(cudaGraphLaunch(exec, b), 0);
    int ran = 0;
    CHECK_EQ(cudaLaunchHostFunc(
                 a, [](void* p) { *static_cast<int*>(p) = 1; }, &ran),
             0);
    CHECK_EQ(cudaMemcpyAsync(pinned, device, sizeof host, cudaMemcpyDeviceToHost, a), 0);
    CHECK_EQ(cudaMemsetAsync(device, 0, sizeof host, a), 0);
    simcuda_host_work(250'000);
    CHECK_EQ(cudaStreamSynchronize(b), 0);
    CHECK_EQ(cudaDeviceSynchronize(), 0);
    CHECK_EQ(ran, 1);
    if (step == 10 && argc > 1 && std::strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
  }
  return finish_checks();
}
