// SPDX-License-Identifier: Apache-2.0
// The hub between the simulated driver (which owns it), the simulated runtime (there may be several
// copies in a process) and the simulated CUPTI (which sets a Tool). Plain data and function
// pointers only: the three libraries are built apart and meet through dlsym("simcuda_hub").
#pragma once

#include <atomic>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;

namespace simgpu {

/// One traced function, a static of its wrapper.
struct CallSite {
  uint32_t domain;  // CUpti_CallbackDomain
  uint32_t cbid;
  const char* name;
};

/// One call under way; lives on the caller's stack between entry and exit.
struct Call {
  const CallSite* site;
  const void* params;
  const char* symbol;
  uint32_t correlation;
  int result;
  int64_t start_ns;
  uint64_t correlation_data;
  bool entered;
};

enum class OperationKind : uint8_t {
  kernel,
  copy,
  set,
  host_function,
  graph_launch,
  event_record,
  event_wait,
  barrier,
};

/// Memory kinds with the numbers of CUpti_ActivityMemoryKind.
enum class MemoryKind : uint8_t { unknown, pageable, pinned, device, array, managed };

/// One finished or scheduled device operation. Times are the device clock in ns.
struct Operation {
  OperationKind kind;
  MemoryKind source;
  MemoryKind destination;
  bool async;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t peer_device;  // source device of a peer copy, else equal to device
  uint32_t graph_id;
  uint32_t graph_exec_id;
  uint64_t graph_node_id;
  int64_t enqueue_ns;
  int64_t start_ns;
  int64_t end_ns;
  uint64_t bytes;
  const char* name;  // interned, valid for ever
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t registers;
  uint32_t set_value;
  uint32_t thread_id;
};

enum class WaitKind : uint8_t { stream, event, context, copy, free, queue_full, stream_wait_event };

/// One wait of the host (or of a stream for an event).
struct HostWait {
  WaitKind kind;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint64_t event_sequence;
  uint32_t correlation;
  int64_t start_ns;
  int64_t end_ns;
  uint32_t thread_id;
  CUctx_st* context_handle;
  CUstream_st* stream_handle;  // null for waits for a context or an event
};

enum class ResourceEvent : uint8_t {
  context_created = 1,
  context_destroyed = 2,
  stream_created = 3,
  stream_destroyed = 4,
  init_finished = 5,
};

/// What a tool (the simulated CUPTI) wants to hear. All members are set.
struct Tool {
  void (*call_enter)(Call* call);
  void (*call_leave)(Call* call);
  void (*operation)(const Operation& operation);
  void (*host_wait)(const HostWait& wait);
  void (*resource)(ResourceEvent event, CUctx_st* context, CUstream_st* stream);
};

struct DeviceSummary {
  char name[64];
  unsigned char uuid[16];
  uint64_t memory_bytes;
  int major;
  int minor;
  int multiprocessors;
};

struct ContextSummary {
  uint32_t id;
  uint32_t device;
  uint32_t null_stream;
};

/// Exported by the simulated libcuda as simcuda_hub().
struct Hub {
  std::atomic<const Tool*> tool;
  uint32_t (*begin_call)();  // the id of this thread's outermost call
  void (*end_call)();
  uint32_t (*current_correlation)();
  int64_t (*now_ns)();
  int64_t (*realtime_offset_ns)();  // CLOCK_REALTIME minus the device clock
  bool (*wait_until)(int64_t time_ns);
  bool (*initialized)();
  CUctx_st* (*current_context)();
  uint32_t (*context_id)(CUctx_st* context);
  uint32_t (*context_device)(CUctx_st* context);
  uint32_t (*stream_id)(CUctx_st* context, CUstream_st* stream, bool per_thread);
  uint32_t (*graph_id)(CUgraph_st* graph);
  uint32_t (*graph_exec_id)(CUgraphExec_st* graph);
  uint64_t (*graph_node_id)(CUgraphNode_st* node);
  int (*device_count)();
  bool (*device_summary)(int device, DeviceSummary* summary);
  unsigned (*contexts)(ContextSummary* list, unsigned capacity);
};

/// Tells the tool about one call; made by generated wrappers only when a tool is attached.
class CallScope {
 public:
  CallScope(Hub* hub, const Tool* tool, const CallSite& site, const void* params,
            const char* symbol)
      : hub_(hub), tool_(tool), call_{&site, params, symbol, hub->begin_call(), 0, 0, 0, false} {
    tool_->call_enter(&call_);
  }
  template <typename Result>
  Result finish(Result result) {
    call_.result = static_cast<int>(result);
    tool_->call_leave(&call_);
    hub_->end_call();
    return result;
  }

 private:
  Hub* hub_;
  const Tool* tool_;
  Call call_;
};

}  // namespace simgpu
