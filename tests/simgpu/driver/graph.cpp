// SPDX-License-Identifier: Apache-2.0
// Graphs built node by node, their instantiation and launch. Captures are in stream.cpp.
#include "device/graph.h"

#include <algorithm>

#include "driver/copy.h"
#include "driver/driver.h"
#include "driver/launch.h"

using simgpu::Context;
using simgpu::DeviceLock;
using simgpu::Graph;
using simgpu::GraphExec;
using simgpu::GraphNode;
using simgpu::need_context;
using simgpu::Stream;
using simgpu::to_exec;
using simgpu::to_graph;
using simgpu::to_node;
using simgpu::to_stream;
using simgpu::Work;

namespace {

#define SIMGPU_GRAPH(variable, handle) \
  Graph* variable = to_graph(handle);  \
  if (variable == nullptr) return CUDA_ERROR_INVALID_VALUE
#define SIMGPU_NODE(variable, handle)    \
  GraphNode* variable = to_node(handle); \
  if (variable == nullptr) return CUDA_ERROR_INVALID_VALUE
#define SIMGPU_EXEC(variable, handle)    \
  GraphExec* variable = to_exec(handle); \
  if (variable == nullptr) return CUDA_ERROR_INVALID_VALUE

CUgraphNode handle(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }

CUresult new_node(CUgraphNode* out, CUgraph hGraph, const CUgraphNode* dependencies, size_t count,
                  CUgraphNodeType type, GraphNode** node) {
  SIMGPU_GRAPH(graph, hGraph);
  std::vector<GraphNode*> list;
  for (size_t i = 0; i < count; ++i) {
    SIMGPU_NODE(dependency, dependencies[i]);
    list.push_back(dependency);
  }
  DeviceLock lock(simgpu::device_lock());
  *node = simgpu::add_node(graph, type, std::move(list));
  if (out) *out = handle(*node);
  return CUDA_SUCCESS;
}

CUresult kernel_node_work(const CUDA_KERNEL_NODE_PARAMS& params, Work* work) {
  auto* kernel = simgpu::to_kernel(params.func ? static_cast<const void*>(params.func)
                                               : static_cast<const void*>(params.kern));
  const uint32_t grid[3] = {params.gridDimX, params.gridDimY, params.gridDimZ};
  const uint32_t block[3] = {params.blockDimX, params.blockDimY, params.blockDimZ};
  SIMGPU_TRY(simgpu::check_launch(kernel, grid, block, params.sharedMemBytes));
  *work = simgpu::kernel_work(kernel, grid, block, params.sharedMemBytes);
  return CUDA_SUCCESS;
}

CUresult copy_node_work(const CUDA_MEMCPY3D& params, CUcontext ctx, Work* work) {
  SIMGPU_CONTEXT(current);
  Context* context = ctx ? simgpu::to_context(ctx) : current;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *work = simgpu::copy_work(simgpu::from_params(params), context, true);
  return CUDA_SUCCESS;
}

Work set_node_work(const CUDA_MEMSET_NODE_PARAMS& params) {
  return simgpu::set_work(simgpu::filled(params.dst, params.pitch, params.value, params.elementSize,
                                         params.width, params.height),
                          true);
}

Work host_node_work(const CUDA_HOST_NODE_PARAMS& params) {
  Work work;
  work.operation.kind = simgpu::OperationKind::host_function;
  work.operation.name = "host_function";
  work.host_function = params.fn;
  work.host_argument = params.userData;
  return work;
}

GraphExec::Step* step_of(GraphExec* exec, GraphNode* node) {
  for (auto& step : exec->steps) {
    if (step.origin == node) return &step;
  }
  return nullptr;
}

CUresult replace(CUgraphExec hGraphExec, CUgraphNode hNode, const Work& work) {
  SIMGPU_EXEC(exec, hGraphExec);
  SIMGPU_NODE(node, hNode);
  DeviceLock lock(simgpu::device_lock());
  GraphExec::Step* step = step_of(exec, node);
  if (step == nullptr) return CUDA_ERROR_INVALID_VALUE;
  step->work = work;
  return CUDA_SUCCESS;
}

template <typename List>
void give(const List& list, CUgraphNode* out, size_t* count) {
  if (out) {
    for (size_t i = 0; i < *count; ++i) out[i] = i < list.size() ? handle(list[i]) : nullptr;
  }
  *count = out ? std::min(*count, list.size()) : list.size();
}

CUresult instantiate(CUgraphExec* out, CUgraph hGraph, unsigned long long flags) {
  SIMGPU_GRAPH(graph, hGraph);
  DeviceLock lock(simgpu::device_lock());
  *out = reinterpret_cast<CUgraphExec>(simgpu::instantiate(graph, flags));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult DRV(cuGraphCreate)(CUgraph* phGraph, unsigned int) {
  if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DeviceLock lock(simgpu::device_lock());
  *phGraph = reinterpret_cast<CUgraph>(simgpu::create_graph());
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphDestroy)(CUgraph hGraph) {
  SIMGPU_GRAPH(graph, hGraph);
  DeviceLock lock(simgpu::device_lock());
  simgpu::destroy_graph(graph);
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphClone)(CUgraph* phGraphClone, CUgraph originalGraph) {
  SIMGPU_GRAPH(graph, originalGraph);
  DeviceLock lock(simgpu::device_lock());
  *phGraphClone = reinterpret_cast<CUgraph>(simgpu::clone_graph(graph));
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphAddEmptyNode)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                  const CUgraphNode* dependencies, size_t numDependencies) {
  GraphNode* node = nullptr;
  return new_node(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EMPTY,
                  &node);
}

CUresult DRV(cuGraphAddKernelNode_v2)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  Work work;
  SIMGPU_TRY(kernel_node_work(*nodeParams, &work));
  GraphNode* node = nullptr;
  SIMGPU_TRY(new_node(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_KERNEL,
                      &node));
  node->work = std::move(work);
  node->kernel_params = *nodeParams;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphAddMemcpyNode)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, size_t numDependencies,
                                   const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  Work work;
  SIMGPU_TRY(copy_node_work(*copyParams, ctx, &work));
  GraphNode* node = nullptr;
  SIMGPU_TRY(new_node(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMCPY,
                      &node));
  node->work = std::move(work);
  node->copy_params = *copyParams;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphAddMemsetNode)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, size_t numDependencies,
                                   const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext) {
  GraphNode* node = nullptr;
  SIMGPU_TRY(new_node(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMSET,
                      &node));
  node->work = set_node_work(*memsetParams);
  node->set_params = *memsetParams;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphAddHostNode)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                 const CUgraphNode* dependencies, size_t numDependencies,
                                 const CUDA_HOST_NODE_PARAMS* nodeParams) {
  GraphNode* node = nullptr;
  SIMGPU_TRY(
      new_node(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_HOST, &node));
  node->work = host_node_work(*nodeParams);
  node->host_params = *nodeParams;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphAddEventRecordNode)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies, size_t numDependencies,
                                        CUevent event) {
  GraphNode* node = nullptr;
  SIMGPU_TRY(new_node(phGraphNode, hGraph, dependencies, numDependencies,
                      CU_GRAPH_NODE_TYPE_EVENT_RECORD, &node));
  node->event = simgpu::to_event(event);
  return node->event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult DRV(cuGraphAddEventWaitNode)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      CUevent event) {
  GraphNode* node = nullptr;
  SIMGPU_TRY(new_node(phGraphNode, hGraph, dependencies, numDependencies,
                      CU_GRAPH_NODE_TYPE_WAIT_EVENT, &node));
  node->event = simgpu::to_event(event);
  return node->event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult DRV(cuGraphAddChildGraphNode)(CUgraphNode* phGraphNode, CUgraph hGraph,
                                       const CUgraphNode* dependencies, size_t numDependencies,
                                       CUgraph childGraph) {
  SIMGPU_GRAPH(child, childGraph);
  GraphNode* node = nullptr;
  SIMGPU_TRY(new_node(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_GRAPH,
                      &node));
  DeviceLock lock(simgpu::device_lock());
  node->child = simgpu::clone_graph(child);
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphAddDependencies_v2)(CUgraph, const CUgraphNode* from, const CUgraphNode* to,
                                        const CUgraphEdgeData*, size_t numDependencies) {
  DeviceLock lock(simgpu::device_lock());
  for (size_t i = 0; i < numDependencies; ++i) {
    SIMGPU_NODE(first, from[i]);
    SIMGPU_NODE(second, to[i]);
    second->dependencies.push_back(first);
    // Nodes stand after their dependencies: move the later one, and what depends on it, back.
    auto& nodes = second->graph->nodes;
    std::vector<GraphNode*> sorted;
    auto place = [&](auto& self, GraphNode* node) -> void {
      if (std::find(sorted.begin(), sorted.end(), node) != sorted.end()) return;
      for (GraphNode* dependency : node->dependencies) self(self, dependency);
      sorted.push_back(node);
    };
    for (GraphNode* node : nodes) place(place, node);
    nodes = sorted;
  }
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphGetNodes)(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  SIMGPU_GRAPH(graph, hGraph);
  give(graph->nodes, nodes, numNodes);
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphGetRootNodes)(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  SIMGPU_GRAPH(graph, hGraph);
  std::vector<GraphNode*> roots;
  for (GraphNode* node : graph->nodes) {
    if (node->dependencies.empty()) roots.push_back(node);
  }
  give(roots, rootNodes, numRootNodes);
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphGetEdges_v2)(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                 CUgraphEdgeData*, size_t* numEdges) {
  SIMGPU_GRAPH(graph, hGraph);
  size_t count = 0;
  for (GraphNode* node : graph->nodes) {
    for (GraphNode* dependency : node->dependencies) {
      if (from && to && count < *numEdges) {
        from[count] = handle(dependency);
        to[count] = handle(node);
      }
      ++count;
    }
  }
  *numEdges = count;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphNodeGetType)(CUgraphNode hNode, CUgraphNodeType* type) {
  SIMGPU_NODE(node, hNode);
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphNodeGetDependencies_v2)(CUgraphNode hNode, CUgraphNode* dependencies,
                                            CUgraphEdgeData*, size_t* numDependencies) {
  SIMGPU_NODE(node, hNode);
  give(node->dependencies, dependencies, numDependencies);
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphKernelNodeGetParams_v2)(CUgraphNode hNode,
                                            CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  SIMGPU_NODE(node, hNode);
  if (node->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
  *nodeParams = node->kernel_params;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphKernelNodeSetParams_v2)(CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  SIMGPU_NODE(node, hNode);
  SIMGPU_TRY(kernel_node_work(*nodeParams, &node->work));
  node->kernel_params = *nodeParams;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphMemcpyNodeGetParams)(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  SIMGPU_NODE(node, hNode);
  *nodeParams = node->copy_params;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphMemsetNodeGetParams)(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  SIMGPU_NODE(node, hNode);
  *nodeParams = node->set_params;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphHostNodeGetParams)(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  SIMGPU_NODE(node, hNode);
  *nodeParams = node->host_params;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphDestroyNode)(CUgraphNode hNode) {
  SIMGPU_NODE(node, hNode);
  DeviceLock lock(simgpu::device_lock());
  auto& nodes = node->graph->nodes;
  nodes.erase(std::remove(nodes.begin(), nodes.end(), node), nodes.end());
  for (GraphNode* other : nodes) {
    auto& list = other->dependencies;
    list.erase(std::remove(list.begin(), list.end(), node), list.end());
  }
  node->magic = 0;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphInstantiateWithFlags)(CUgraphExec* phGraphExec, CUgraph hGraph,
                                          unsigned long long flags) {
  return instantiate(phGraphExec, hGraph, flags);
}

CUresult DRV(cuGraphInstantiateWithParams)(CUgraphExec* phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return instantiate(phGraphExec, hGraph, instantiateParams->flags);
}

CUresult DRV(cuGraphExecDestroy)(CUgraphExec hGraphExec) {
  SIMGPU_EXEC(exec, hGraphExec);
  DeviceLock lock(simgpu::device_lock());
  simgpu::destroy_exec(exec);
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphExecGetFlags)(CUgraphExec hGraphExec, cuuint64_t* flags) {
  SIMGPU_EXEC(exec, hGraphExec);
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphUpload)(CUgraphExec hGraphExec, CUstream hStream) {
  SIMGPU_EXEC(exec, hGraphExec);
  SIMGPU_STREAM(stream, hStream);
  return CUDA_SUCCESS;
}

CUresult DRV(cuGraphLaunch)(CUgraphExec hGraphExec, CUstream hStream) {
  SIMGPU_STREAM(stream, hStream);
  SIMGPU_EXEC(exec, hGraphExec);
  return simgpu::launch_graph(exec, stream);
}

CUresult DRV(cuGraphExecUpdate_v2)(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphExecUpdateResultInfo* resultInfo) {
  SIMGPU_EXEC(exec, hGraphExec);
  SIMGPU_GRAPH(graph, hGraph);
  DeviceLock lock(simgpu::device_lock());
  bool fits = simgpu::update(exec, graph);
  if (resultInfo) {
    *resultInfo = {};
    resultInfo->result =
        fits ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  }
  return fits ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult DRV(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  Work work;
  SIMGPU_TRY(kernel_node_work(*nodeParams, &work));
  return replace(hGraphExec, hNode, work);
}

CUresult DRV(cuGraphExecMemcpyNodeSetParams)(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  Work work;
  SIMGPU_TRY(copy_node_work(*copyParams, ctx, &work));
  return replace(hGraphExec, hNode, work);
}

CUresult DRV(cuGraphExecMemsetNodeSetParams)(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                             CUcontext) {
  return replace(hGraphExec, hNode, set_node_work(*memsetParams));
}

CUresult DRV(cuGraphExecHostNodeSetParams)(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return replace(hGraphExec, hNode, host_node_work(*nodeParams));
}

CUresult DRV(cuDeviceGraphMemTrim)(CUdevice) { return CUDA_SUCCESS; }
