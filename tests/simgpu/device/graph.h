// SPDX-License-Identifier: Apache-2.0
// Graphs: nodes with dependencies, capture of streams into graphs, instantiation and launch.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "device/schedule.h"

namespace simgpu {

struct Graph;
struct Kernel;

constexpr uint32_t kGraphMagic = 0x47524150;
constexpr uint32_t kGraphNodeMagic = 0x4e4f4445;
constexpr uint32_t kGraphExecMagic = 0x45584543;

struct GraphNode {
  uint32_t magic = kGraphNodeMagic;
  uint64_t id = 0;
  Graph* graph = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Work work;
  CUDA_KERNEL_NODE_PARAMS kernel_params{};
  CUDA_MEMCPY3D copy_params{};
  CUDA_MEMSET_NODE_PARAMS set_params{};
  CUDA_HOST_NODE_PARAMS host_params{};
  Event* event = nullptr;
  Graph* child = nullptr;
  std::vector<GraphNode*> dependencies;
};

struct Graph {
  uint32_t magic = kGraphMagic;
  uint32_t id = 0;
  uint32_t next_node = 1;
  std::vector<GraphNode*> nodes;  // each after its dependencies
};

struct GraphExec {
  struct Step {
    GraphNode* origin;
    CUgraphNodeType type;
    Work work;
    Event* event;
    std::vector<size_t> dependencies;
  };
  uint32_t magic = kGraphExecMagic;
  uint32_t id = 0;
  Graph* graph = nullptr;
  uint32_t graph_id = 0;
  uint64_t flags = 0;
  std::vector<Step> steps;
};

struct Capture {
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::vector<Stream*> streams;
  uint64_t id = 0;
  bool invalid = false;
  bool owns_graph = true;
};

Graph* to_graph(CUgraph handle);
GraphNode* to_node(CUgraphNode handle);
GraphExec* to_exec(CUgraphExec handle);

Graph* create_graph();
Graph* clone_graph(const Graph* graph);
void destroy_graph(Graph* graph);
GraphNode* add_node(Graph* graph, CUgraphNodeType type, std::vector<GraphNode*> dependencies);

GraphExec* instantiate(Graph* graph, uint64_t flags);
/// Replaces the contents of the executable graph; false if the shapes differ.
bool update(GraphExec* exec, Graph* graph);
void destroy_exec(GraphExec* exec);
CUresult launch_graph(GraphExec* exec, Stream* stream);

// Captures. All are called with the device lock held.
CUresult begin_capture(Stream* stream, CUstreamCaptureMode mode, Graph* graph);
CUresult end_capture(Stream* stream, Graph** graph);
CUresult capture_work(Stream* stream, Work&& work);
CUresult capture_event_record(Event* event, Stream* stream);
CUresult capture_event_wait(Event* event, Stream* stream);
CUresult capture_node(Stream* stream, CUgraphNodeType type, GraphNode** node);
CUresult refuse_legacy_in_capture(Stream* stream);
/// Error for a wait on a stream in capture; it spoils the capture.
CUresult refuse_wait_in_capture(Stream* stream);
CUresult refuse_wait_in_capture(Context* context);

}  // namespace simgpu
