// SPDX-License-Identifier: Apache-2.0
#include "device/graph.h"

#include <algorithm>
#include <map>

#include "device/clock.h"
#include "device/settings.h"

namespace simgpu {
namespace {

// The device needs about this long from a node to the next one of the same launch.
constexpr int64_t kNodeGapNs = 1'000;

uint32_t next_graph_id = 1;
uint32_t next_exec_id = 1;
uint64_t next_capture_id = 1;

CUgraphNodeType node_type(const Work& work) {
  switch (work.operation.kind) {
    case OperationKind::kernel:
      return CU_GRAPH_NODE_TYPE_KERNEL;
    case OperationKind::copy:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case OperationKind::set:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    case OperationKind::host_function:
      return CU_GRAPH_NODE_TYPE_HOST;
    default:
      return CU_GRAPH_NODE_TYPE_EMPTY;
  }
}

void merge(std::vector<GraphNode*>* into, const std::vector<GraphNode*>& nodes) {
  for (GraphNode* node : nodes) {
    if (std::find(into->begin(), into->end(), node) == into->end()) into->push_back(node);
  }
}

void leave_capture(Capture* capture) {
  for (Stream* stream : capture->streams) {
    if (stream->capture == capture) {
      stream->capture = nullptr;
      stream->capture_tips.clear();
    }
  }
}

void append_steps(GraphExec* exec, Graph* graph, const std::vector<size_t>& before,
                  std::vector<size_t>* ends) {
  std::map<GraphNode*, std::vector<size_t>> steps_of;
  std::vector<bool> has_successor;
  size_t first = exec->steps.size();
  for (GraphNode* node : graph->nodes) {
    std::vector<size_t> dependencies;
    for (GraphNode* dependency : node->dependencies) {
      const auto& steps = steps_of[dependency];
      dependencies.insert(dependencies.end(), steps.begin(), steps.end());
    }
    if (node->dependencies.empty()) dependencies = before;
    if (node->child) {
      append_steps(exec, node->child, dependencies, &steps_of[node]);
      continue;
    }
    steps_of[node] = {exec->steps.size()};
    exec->steps.push_back({node, node->type, node->work, node->event, dependencies});
  }
  has_successor.resize(exec->steps.size());
  for (const auto& step : exec->steps) {
    for (size_t dependency : step.dependencies) has_successor[dependency] = true;
  }
  for (size_t i = first; i < exec->steps.size(); ++i) {
    if (!has_successor[i]) ends->push_back(i);
  }
  if (exec->steps.size() == first) *ends = before;
}

Work empty_work(OperationKind kind) {
  Work work;
  work.operation.kind = kind;
  return work;
}

}  // namespace

Graph* to_graph(CUgraph handle) {
  auto* graph = reinterpret_cast<Graph*>(handle);
  return graph && graph->magic == kGraphMagic ? graph : nullptr;
}

GraphNode* to_node(CUgraphNode handle) {
  auto* node = reinterpret_cast<GraphNode*>(handle);
  return node && node->magic == kGraphNodeMagic ? node : nullptr;
}

GraphExec* to_exec(CUgraphExec handle) {
  auto* exec = reinterpret_cast<GraphExec*>(handle);
  return exec && exec->magic == kGraphExecMagic ? exec : nullptr;
}

Graph* create_graph() {
  auto* graph = new Graph;
  graph->id = next_graph_id++;
  return graph;
}

GraphNode* add_node(Graph* graph, CUgraphNodeType type, std::vector<GraphNode*> dependencies) {
  auto* node = new GraphNode;
  node->graph = graph;
  node->id = uint64_t{graph->id} << 32 | graph->next_node++;
  node->type = type;
  node->work.operation.kind = OperationKind::barrier;
  node->dependencies = std::move(dependencies);
  graph->nodes.push_back(node);
  return node;
}

Graph* clone_graph(const Graph* graph) {
  Graph* copy = create_graph();
  std::map<const GraphNode*, GraphNode*> copy_of;
  for (const GraphNode* node : graph->nodes) {
    auto* twin = new GraphNode(*node);
    twin->graph = copy;
    twin->id = uint64_t{copy->id} << 32 | copy->next_node++;
    for (GraphNode*& dependency : twin->dependencies) dependency = copy_of[dependency];
    if (node->child) twin->child = clone_graph(node->child);
    copy_of[node] = twin;
    copy->nodes.push_back(twin);
  }
  return copy;
}

void destroy_graph(Graph* graph) {
  for (GraphNode* node : graph->nodes) {
    if (node->child) destroy_graph(node->child);
    node->magic = 0;
    delete node;
  }
  graph->magic = 0;
  graph->nodes.clear();  // the shell stays, so that a stale handle meets a wrong magic number
}

GraphExec* instantiate(Graph* graph, uint64_t flags) {
  auto* exec = new GraphExec;
  exec->id = next_exec_id++;
  exec->graph = graph;
  exec->graph_id = graph->id;
  exec->flags = flags;
  std::vector<size_t> ends;
  append_steps(exec, graph, {}, &ends);
  return exec;
}

bool update(GraphExec* exec, Graph* graph) {
  GraphExec fresh;
  std::vector<size_t> ends;
  append_steps(&fresh, graph, {}, &ends);
  if (fresh.steps.size() != exec->steps.size()) return false;
  for (size_t i = 0; i < fresh.steps.size(); ++i) {
    if (fresh.steps[i].type != exec->steps[i].type ||
        fresh.steps[i].dependencies != exec->steps[i].dependencies) {
      return false;
    }
  }
  for (size_t i = 0; i < fresh.steps.size(); ++i) {
    // Handles of the first graph's nodes stay the ones that address the executable graph.
    fresh.steps[i].origin = exec->steps[i].origin;
  }
  exec->steps = std::move(fresh.steps);
  return true;
}

void destroy_exec(GraphExec* exec) {
  exec->magic = 0;
  exec->steps.clear();
}

CUresult launch_graph(GraphExec* exec, Stream* stream) {
  DeviceLock lock(device_lock());
  if (stream->capture) {
    GraphNode* node = nullptr;
    CUresult result = capture_node(stream, CU_GRAPH_NODE_TYPE_GRAPH, &node);
    if (result == CUDA_SUCCESS) node->child = clone_graph(exec->graph);
    return result;
  }
  if (CUresult refused = refuse_legacy_in_capture(stream)) return refused;
  Work base = empty_work(OperationKind::barrier);
  int64_t now = now_ns();
  base.earliest_ns = now + settings().launch_latency_ns;
  predecessors(stream, &base);
  std::vector<Mark> begin = {Mark{base.earliest_ns, nullptr}};
  for (const CompletionPtr& open : base.pending) begin.push_back(Mark{0, open});
  auto span = std::make_shared<GraphSpan>();
  std::vector<Mark> marks;
  std::vector<Transfer> transfers;
  for (const GraphExec::Step& step : exec->steps) {
    Work work = step.work;
    work.span = span;
    work.operation.enqueue_ns = now;
    work.operation.graph_id = exec->graph_id;
    work.operation.graph_exec_id = exec->id;
    work.operation.graph_node_id = step.origin ? step.origin->id : 0;
    std::vector<Mark> before;
    for (size_t dependency : step.dependencies) before.push_back(marks[dependency]);
    Transfer transfer = work.transfer;
    marks.push_back(schedule_after(stream, before.empty() ? begin : before,
                                   before.empty() ? 0 : kNodeGapNs, std::move(work)));
    // Nodes that wait for a host function move their data when they are scheduled.
    if (marks.back().resolved()) run_transfer(transfer);
    if (step.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && step.event) {
      step.event->mark = marks.back();
      step.event->recorded = true;
      step.event->stream = stream;
    }
  }
  Work end = empty_work(OperationKind::graph_launch);
  end.span = span;
  end.operation.enqueue_ns = now;
  end.operation.graph_id = exec->graph_id;
  end.operation.graph_exec_id = exec->id;
  marks.insert(marks.end(), begin.begin(), begin.end());
  stream->tail = schedule_after(stream, marks, 0, std::move(end));
  Mark tail = stream->tail;
  if (settings().virtual_clock && !tail.resolved()) wait_resolved(&lock, tail);
  return CUDA_SUCCESS;
}

CUresult begin_capture(Stream* stream, CUstreamCaptureMode mode, Graph* graph) {
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto* capture = new Capture;
  capture->owns_graph = graph == nullptr;
  capture->graph = graph ? graph : create_graph();
  capture->origin = stream;
  capture->mode = mode;
  capture->id = next_capture_id++;
  capture->streams.push_back(stream);
  stream->capture = capture;
  stream->capture_tips.clear();
  ++stream->context->captures;
  return CUDA_SUCCESS;
}

CUresult end_capture(Stream* stream, Graph** graph) {
  Capture* capture = stream->capture;
  *graph = nullptr;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  bool joined = true;
  for (Stream* other : capture->streams) {
    if (other == stream) continue;
    for (GraphNode* tip : other->capture_tips) {
      bool reached = std::find(stream->capture_tips.begin(), stream->capture_tips.end(), tip) !=
                     stream->capture_tips.end();
      for (GraphNode* node : capture->graph->nodes) {
        const auto& list = node->dependencies;
        reached = reached || std::find(list.begin(), list.end(), tip) != list.end();
      }
      joined = joined && reached;
    }
  }
  --stream->context->captures;
  leave_capture(capture);
  bool invalid = capture->invalid;
  capture->streams.clear();
  if (invalid || !joined) {
    return invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *graph = capture->graph;
  return CUDA_SUCCESS;  // the Capture itself is leaked: events may still point at it
}

CUresult capture_node(Stream* stream, CUgraphNodeType type, GraphNode** node) {
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *node = add_node(stream->capture->graph, type, stream->capture_tips);
  stream->capture_tips = {*node};
  return CUDA_SUCCESS;
}

CUresult capture_work(Stream* stream, Work&& work) {
  GraphNode* node = nullptr;
  CUresult result = capture_node(stream, node_type(work), &node);
  if (result != CUDA_SUCCESS) return result;
  const Operation& operation = work.operation;
  if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS& params = node->kernel_params;
    params.func = reinterpret_cast<CUfunction>(work.kernel);
    params.gridDimX = operation.grid[0];
    params.gridDimY = operation.grid[1];
    params.gridDimZ = operation.grid[2];
    params.blockDimX = operation.block[0];
    params.blockDimY = operation.block[1];
    params.blockDimZ = operation.block[2];
    params.sharedMemBytes = operation.dynamic_shared_bytes;
  } else if (node->type == CU_GRAPH_NODE_TYPE_HOST) {
    node->host_params.fn = work.host_function;
    node->host_params.userData = work.host_argument;
  }
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult capture_event_record(Event* event, Stream* stream) {
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->capture = stream->capture;
  event->capture_tips = stream->capture_tips;
  return CUDA_SUCCESS;
}

CUresult capture_event_wait(Event* event, Stream* stream) {
  if (event->capture == nullptr) {
    if (!event->recorded) return CUDA_SUCCESS;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->capture->streams.empty()) {  // that capture is over
    return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_ERROR_CAPTURED_EVENT;
  }
  if (stream->capture == nullptr) {
    if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    stream->capture = event->capture;
    stream->capture->streams.push_back(stream);
    stream->capture_tips = event->capture_tips;
    return CUDA_SUCCESS;
  }
  if (stream->capture != event->capture) {
    stream->capture->invalid = event->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  merge(&stream->capture_tips, event->capture_tips);
  return CUDA_SUCCESS;
}

CUresult refuse_legacy_in_capture(Stream* stream) {
  Context* context = stream->context;
  if (!stream->legacy || context->captures == 0) return CUDA_SUCCESS;
  for (Stream* other : context->streams) {
    if (other->capture && other->blocking &&
        other->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
      other->capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return CUDA_SUCCESS;
}

CUresult refuse_wait_in_capture(Stream* stream) {
  DeviceLock lock(device_lock());
  if (stream->capture == nullptr) return refuse_legacy_in_capture(stream);
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult refuse_wait_in_capture(Context* context) {
  DeviceLock lock(device_lock());
  if (context->captures == 0) return CUDA_SUCCESS;
  for (Stream* stream : context->streams) {
    if (stream->capture) stream->capture->invalid = true;
  }
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace simgpu
