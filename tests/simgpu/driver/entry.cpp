// SPDX-License-Identifier: Apache-2.0
// The exported functions (generated around the implementations), the hub for tools, and the look-up
// of entry points and error names.
#include <cstdio>
#include <cstring>
#include <iterator>

#include "device/clock.h"
#include "device/graph.h"
#include "device/procs.h"
#include "device/settings.h"
#include "device/tool.h"
#include "driver/driver.h"
#include "driver/launch.h"
#include "generated_cuda_meta.h"

namespace simgpu {
namespace {

uint32_t begin_call() {
  static std::atomic<uint32_t> next{1};
  ThreadState& state = thread_state();
  if (state.call_depth++ == 0) state.correlation = next.fetch_add(1, std::memory_order_relaxed);
  return state.correlation;
}

void end_call() { --thread_state().call_depth; }

uint32_t current_correlation() {
  const ThreadState& state = thread_state();
  return state.call_depth ? state.correlation : 0;
}

Context* context_or_current(CUctx_st* handle) {
  return handle ? to_context(handle) : current_context();
}

}  // namespace

Hub hub = {
    {nullptr},
    begin_call,
    end_call,
    current_correlation,
    now_ns,
    realtime_offset_ns,
    [](int64_t time_ns) {
      wait_until(time_ns);
      return true;
    },
    initialized,
    [] {
      Context* context = current_context();
      return reinterpret_cast<CUctx_st*>(context && !context->destroyed ? context : nullptr);
    },
    [](CUctx_st* handle) {
      Context* context = context_or_current(handle);
      return context ? context->id : 0;
    },
    [](CUctx_st* handle) {
      Context* context = context_or_current(handle);
      return context ? static_cast<uint32_t>(context->device->ordinal) : UINT32_MAX;
    },
    [](CUctx_st* handle, CUstream_st* stream, bool per_thread) {
      Context* context = context_or_current(handle);
      Stream* found = context ? stream_in(context, stream, per_thread) : nullptr;
      return found ? found->id : UINT32_MAX;
    },
    [](CUgraph_st* handle) {
      Graph* graph = to_graph(handle);
      return graph ? graph->id : 0;
    },
    [](CUgraphExec_st* handle) {
      GraphExec* exec = to_exec(handle);
      return exec ? exec->id : 0;
    },
    [](CUgraphNode_st* handle) {
      GraphNode* node = to_node(handle);
      return node ? node->id : 0;
    },
    device_count,
    summarize_device,
    list_contexts,
};

}  // namespace simgpu

#define SIMGPU_EXPORT extern "C" __attribute__((visibility("default")))

/// The way of the other stand-ins to the device.
SIMGPU_EXPORT simgpu::Hub* simcuda_hub() { return &simgpu::hub; }

/// Work of the host in a test program: moves a virtual clock, sleeps by a real one.
SIMGPU_EXPORT void simcuda_host_work(long long ns) { simgpu::wait_until(simgpu::now_ns() + ns); }

CUresult DRV(cuGetProcAddress_v2)(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* symbolStatus) {
  if (symbol == nullptr || pfn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const SimgpuProc* newest = nullptr;
  bool known = false;
  for (unsigned i = 0; i < simgpu_proc_count; ++i) {
    const SimgpuProc& row = simgpu_procs[i];
    if (std::strcmp(row.name, symbol) != 0) continue;
    known = true;
    if (row.version <= cudaVersion && (!newest || row.version > newest->version)) newest = &row;
  }
  *pfn = nullptr;
  if (newest) {
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *pfn = reinterpret_cast<void*>(per_thread ? newest->per_thread : newest->legacy);
  }
  if (symbolStatus) {
    *symbolStatus = newest  ? CU_GET_PROC_ADDRESS_SUCCESS
                    : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return newest ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult DRV(cuGetProcAddress)(const char* symbol, void** pfn, int driverVersion,
                               cuuint64_t flags) {
  return DRV(cuGetProcAddress_v2)(symbol, pfn, driverVersion, flags, nullptr);
}

CUresult DRV(cuGetExportTable)(const void** ppExportTable, const CUuuid*) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) {
    std::fprintf(
        stderr,
        "simgpu: this program contains NVIDIA's static CUDA runtime, which cannot run on a "
        "simulated device; rebuild it with `nvcc -cudart shared`\n");
  }
  *ppExportTable = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

namespace {

struct ErrorRow {
  CUresult code;
  const char* name;
  const char* text;
};
#define SIMGPU_ERROR(code, text) \
  { code, #code, text }
const ErrorRow kErrors[] = {
    SIMGPU_ERROR(CUDA_SUCCESS, "no error"),
    SIMGPU_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    SIMGPU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    SIMGPU_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    SIMGPU_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    SIMGPU_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    SIMGPU_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    SIMGPU_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    SIMGPU_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    SIMGPU_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    SIMGPU_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    SIMGPU_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in this state"),
    SIMGPU_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    SIMGPU_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    SIMGPU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    SIMGPU_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    SIMGPU_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "memory is already registered"),
    SIMGPU_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "memory is not registered"),
    SIMGPU_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    SIMGPU_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    SIMGPU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted when stream is capturing"),
    SIMGPU_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "capture was invalidated by an error"),
    SIMGPU_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would merge two captures"),
    SIMGPU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not begun on this stream"),
    SIMGPU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a captured stream was not joined"),
    SIMGPU_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency crosses into a capture"),
    SIMGPU_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 "dependency on a capture by the legacy stream"),
    SIMGPU_ERROR(CUDA_ERROR_CAPTURED_EVENT, "event was recorded in a capture"),
    SIMGPU_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update does not fit"),
    SIMGPU_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

const ErrorRow* error_row(CUresult code) {
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

CUresult DRV(cuGetErrorName)(CUresult error, const char** pStr) {
  const ErrorRow* row = error_row(error);
  *pStr = row ? row->name : nullptr;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult DRV(cuGetErrorString)(CUresult error, const char** pStr) {
  const ErrorRow* row = error_row(error);
  *pStr = row ? row->text : nullptr;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

using simgpu::CallScope;
using simgpu::CallSite;
using simgpu::driver_hub;
using simgpu::Hub;
using simgpu::launch_symbol;
using simgpu::PerThreadDefaultStream;
using simgpu::Tool;

#include "driver_exports.inc"
