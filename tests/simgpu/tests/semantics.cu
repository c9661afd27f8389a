// SPDX-License-Identifier: Apache-2.0
// What the runtime promises, on one device: streams, events, copies, host functions, pools,
// symbols, errors. Run with SIMGPU_DEFAULT_KERNEL=2ms.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"

__global__ void scale(int n, float factor, float* x) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % 64] = factor;
  if (i < n) x[i] *= tile[threadIdx.x % 64];
}

__device__ int answer = 42;
__constant__ float table[4] = {1, 2, 3, 4};
__managed__ int shared_number = 7;

static double now_ms() {
  using std::chrono::duration;
  return duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static bool near(double value, double expected, double tolerance) {
  if (std::fabs(value - expected) <= tolerance) return true;
  std::printf("%f is not near %f\n", value, expected);
  return false;
}

static void streams_run_side_by_side(float* x) {
  cudaStream_t a, b;
  CHECK_EQ(cudaStreamCreate(&a), 0);
  CHECK_EQ(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking), 0);
  CHECK(eventually([&] {
    double start = now_ms();
    scale<<<1, 32, 0, a>>>(1, 1, x);
    scale<<<1, 32, 0, b>>>(1, 1, x);
    cudaError_t query = cudaStreamQuery(a);
    CHECK_EQ(cudaPeekAtLastError(), cudaSuccess);  // "not ready" is not an error to remember
    CHECK_EQ(cudaStreamSynchronize(a), 0);
    CHECK_EQ(cudaStreamSynchronize(b), 0);
    return query == cudaErrorNotReady && near(now_ms() - start, 2.0, 1.5);
  }));
  CHECK_EQ(cudaStreamQuery(a), 0);
  CHECK_EQ(cudaStreamDestroy(a), 0);
  CHECK_EQ(cudaStreamSynchronize(a), cudaErrorInvalidResourceHandle);
  CHECK_EQ(cudaStreamDestroy(b), 0);
}

static float elapsed_of_two(cudaStream_t first, cudaStream_t second, float* x) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin, first);
  scale<<<1, 32, 0, first>>>(1, 1, x);
  scale<<<1, 32, 0, second>>>(1, 1, x);
  cudaEventRecord(end, second);
  cudaEventSynchronize(end);
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return ms;
}

static void legacy_stream_orders_blocking_streams(float* x) {
  cudaStream_t blocking, free_stream;
  cudaStreamCreate(&blocking);
  cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking);
  CHECK(eventually([&] { return near(elapsed_of_two(blocking, cudaStreamLegacy, x), 4.0, 0.5); }));
  CHECK(eventually([&] { return near(elapsed_of_two(cudaStreamLegacy, blocking, x), 4.0, 0.5); }));
  CHECK(
      eventually([&] { return near(elapsed_of_two(cudaStreamLegacy, free_stream, x), 2.0, 0.5); }));
  CHECK(eventually(
      [&] { return near(elapsed_of_two(cudaStreamPerThread, cudaStreamLegacy, x), 4.0, 0.5); }));
  cudaDeviceSynchronize();
  cudaStreamDestroy(blocking);
  cudaStreamDestroy(free_stream);
}

static void events_order_streams(float* x) {
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEvent_t event, never;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventCreate(&never);
  CHECK_EQ(cudaEventQuery(never), 0);
  CHECK_EQ(cudaEventSynchronize(never), 0);
  CHECK(eventually([&] {
    double start = now_ms();
    scale<<<1, 32, 0, a>>>(1, 1, x);
    cudaEventRecord(event, a);
    cudaError_t query = cudaEventQuery(event);
    CHECK_EQ(cudaStreamWaitEvent(b, event, 0), 0);
    scale<<<1, 32, 0, b>>>(1, 1, x);
    cudaStreamSynchronize(b);
    return query == cudaErrorNotReady && near(now_ms() - start, 4.0, 1.5);
  }));
  float ms;
  CHECK_EQ(cudaEventElapsedTime(&ms, event, event), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  cudaEventDestroy(event);
  cudaEventDestroy(never);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}

static void copies_move_data() {
  constexpr size_t kCount = 1 << 20;
  std::vector<int> in(kCount), out(kCount);
  for (size_t i = 0; i < kCount; ++i) in[i] = static_cast<int>(i * 7);
  int *device, *other, *pinned;
  CHECK_EQ(cudaMalloc(&device, kCount * 4), 0);
  CHECK_EQ(cudaMalloc(&other, kCount * 4), 0);
  CHECK_EQ(cudaMallocHost(&pinned, kCount * 4), 0);
  CHECK_EQ(cudaMemcpy(device, in.data(), kCount * 4, cudaMemcpyHostToDevice), 0);
  CHECK_EQ(cudaMemcpyAsync(other, device, kCount * 4, cudaMemcpyDeviceToDevice), 0);
  double start = now_ms();
  CHECK(eventually([&] {
    CHECK_EQ(cudaMemcpyAsync(pinned, other, kCount * 4, cudaMemcpyDeviceToHost), 0);
    return cudaStreamQuery(0) == cudaErrorNotReady;  // pinned: the host goes on
  }));
  CHECK_EQ(cudaMemcpyAsync(out.data(), other, kCount * 4, cudaMemcpyDefault), 0);
  CHECK_EQ(cudaStreamQuery(0), 0);  // pageable: the host waits
  CHECK(now_ms() - start > 0.5);    // 4 MiB at 25 and at 10 GB/s
  CHECK(in == out);
  CHECK(std::memcmp(pinned, in.data(), kCount * 4) == 0);
  CHECK_EQ(cudaMemset(device, 0x11, 64), 0);
  CHECK_EQ(cudaMemcpy(out.data(), device, 64, cudaMemcpyDeviceToHost), 0);
  CHECK_EQ(out[15], 0x11111111);

  char rows[4 * 8], back[4 * 8];
  for (int i = 0; i < 32; ++i) rows[i] = static_cast<char>(i);
  void* pitched;
  size_t pitch;
  CHECK_EQ(cudaMallocPitch(&pitched, &pitch, 8, 4), 0);
  CHECK(pitch >= 8 && pitch % 32 == 0);
  CHECK_EQ(cudaMemcpy2D(pitched, pitch, rows, 8, 8, 4, cudaMemcpyHostToDevice), 0);
  CHECK_EQ(cudaMemcpy2D(back, 8, pitched, pitch, 8, 4, cudaMemcpyDeviceToHost), 0);
  CHECK(std::memcmp(rows, back, 32) == 0);

  cudaPointerAttributes attributes;
  cudaPointerGetAttributes(&attributes, device + 5);
  CHECK_EQ(attributes.type, cudaMemoryTypeDevice);
  cudaPointerGetAttributes(&attributes, pinned);
  CHECK_EQ(attributes.type, cudaMemoryTypeHost);
  cudaPointerGetAttributes(&attributes, in.data());
  CHECK_EQ(attributes.type, cudaMemoryTypeUnregistered);
  CHECK_EQ(attributes.device, -2);
  CHECK_EQ(cudaHostRegister(in.data(), kCount * 4, 0), 0);
  cudaPointerGetAttributes(&attributes, in.data() + 9);
  CHECK_EQ(attributes.type, cudaMemoryTypeHost);
  CHECK_EQ(cudaHostUnregister(in.data()), 0);
  CHECK_EQ(cudaFree(device), 0);
  CHECK_EQ(cudaFree(device), cudaErrorInvalidValue);
  cudaGetLastError();
  cudaFree(other);
  cudaFree(pitched);
  CHECK_EQ(cudaFreeHost(pinned), 0);
}

static void symbols_have_their_values() {
  int number = 0;
  CHECK_EQ(cudaMemcpyFromSymbol(&number, answer, sizeof number), 0);
  CHECK_EQ(number, 42);
  float values[4];
  CHECK_EQ(cudaMemcpyFromSymbol(values, table, sizeof values), 0);
  CHECK_EQ(values[3], 4);
  values[1] = 9;
  CHECK_EQ(cudaMemcpyToSymbol(table, values, sizeof values), 0);
  CHECK_EQ(cudaMemcpyFromSymbol(&values[0], table, 4, 4), 0);
  CHECK_EQ(values[0], 9);
  CHECK_EQ(shared_number, 7);
  shared_number = 8;
  CHECK_EQ(cudaMemcpyFromSymbol(&number, answer, 8), cudaErrorInvalidValue);
  cudaGetLastError();
}

struct Order {
  int step = 0;
  int first = -1;
  int second = -1;
  int* pinned;
};

static void host_functions_run_in_order(float* x) {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  Order order;
  int* device;
  cudaMalloc(&device, 4);
  cudaMallocHost(&order.pinned, 4);
  *order.pinned = 1;
  double start = now_ms();
  scale<<<1, 32, 0, stream>>>(1, 1, x);
  cudaLaunchHostFunc(
      stream,
      [](void* p) {
        auto* o = static_cast<Order*>(p);
        usleep(3000);
        *o->pinned = 5;
        o->first = o->step++;
      },
      &order);
  cudaMemcpyAsync(device, order.pinned, 4, cudaMemcpyHostToDevice, stream);
  scale<<<1, 32, 0, stream>>>(1, 1, x);
  cudaStreamAddCallback(
      stream,
      [](cudaStream_t, cudaError_t, void* p) {
        auto* o = static_cast<Order*>(p);
        o->second = o->step++;
      },
      &order, 0);
  CHECK_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  CHECK_EQ(order.first, -1);
  CHECK_EQ(cudaStreamSynchronize(stream), 0);
  CHECK(now_ms() - start > 6.9);
  CHECK_EQ(order.first, 0);
  CHECK_EQ(order.second, 1);
  int value = 0;
  cudaMemcpy(&value, device, 4, cudaMemcpyDeviceToHost);
  CHECK_EQ(value, 5);  // the copy behind the host function saw what it wrote
  cudaFree(device);
  cudaFreeHost(order.pinned);
  cudaStreamDestroy(stream);
}

static void pools_give_and_take() {
  cudaMemPool_t pool;
  CHECK_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), 0);
  unsigned long long threshold = 1 << 20, used = 1;
  CHECK_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), 0);
  void *a, *b;
  CHECK_EQ(cudaMallocAsync(&a, 1000, 0), 0);
  CHECK_EQ(cudaMallocAsync(&b, 1000, 0), 0);
  CHECK(a != b);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
  CHECK(used >= 2000);
  CHECK_EQ(cudaFreeAsync(a, 0), 0);
  CHECK_EQ(cudaFreeAsync(b, 0), 0);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
  CHECK_EQ(used, 0);
}

static void errors_are_those_of_cuda(float* x) {
  CHECK_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  CHECK_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  CHECK_EQ(cudaGetLastError(), cudaSuccess);
  scale<<<0, 32>>>(1, 1, x);
  CHECK_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  scale<<<1, 2048>>>(1, 1, x);
  CHECK_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  scale<<<1, 32, 1 << 20>>>(1, 1, x);
  CHECK_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  void* huge;
  CHECK_EQ(cudaMalloc(&huge, size_t{1} << 50), cudaErrorMemoryAllocation);
  CHECK_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
  size_t free_bytes, total;
  CHECK_EQ(cudaMemGetInfo(&free_bytes, &total), 0);
  CHECK(free_bytes > 0 && free_bytes < total);
}

static void functions_have_attributes() {
  cudaFuncAttributes attributes;
  CHECK_EQ(cudaFuncGetAttributes(&attributes, scale), 0);
  CHECK(attributes.numRegs > 0 && attributes.numRegs < 64);
  CHECK(attributes.sharedSizeBytes >= 256);
  CHECK(attributes.ptxVersion >= 75 && attributes.ptxVersion <= 90);
  int blocks = 0, grid = 0, block = 0;
  CHECK_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 0), 0);
  CHECK_EQ(blocks, 8);
  CHECK_EQ(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scale, 0, 0), 0);
  CHECK_EQ(block, 1024);
  CHECK_EQ(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 << 10), 0);
  cudaDeviceProp prop;
  CHECK_EQ(cudaGetDeviceProperties(&prop, 0), 0);
  CHECK(std::strstr(prop.name, "Simulated") != nullptr);
  CHECK_EQ(prop.maxThreadsPerBlock, 1024);
}

int main() {
  float* x;
  CHECK_EQ(cudaFree(0), 0);
  CHECK_EQ(cudaMalloc(&x, 4096), 0);
  streams_run_side_by_side(x);
  cudaGetLastError();
  legacy_stream_orders_blocking_streams(x);
  events_order_streams(x);
  copies_move_data();
  symbols_have_their_values();
  host_functions_run_in_order(x);
  pools_give_and_take();
  errors_are_those_of_cuda(x);
  functions_have_attributes();
  CHECK_EQ(cudaDeviceReset(), 0);
  CHECK_EQ(cudaMalloc(&x, 16), 0);  // the next call makes a new context
  // A host function that still waits must not keep the process from ending.
  scale<<<1, 32>>>(1, 1, x);
  cudaLaunchHostFunc(
      0, [](void*) { usleep(100000); }, nullptr);
  return finish_checks();
}
