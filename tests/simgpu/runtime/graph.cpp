// SPDX-License-Identifier: Apache-2.0
// Graphs. Handles are those of the driver; parameter structs are translated.
#include "runtime/runtime.h"

using simrt::address;
using simrt::driver;
using simrt::finish;

namespace {

cudaError_t kernel_params(const cudaKernelNodeParams& from, CUDA_KERNEL_NODE_PARAMS* to) {
  SIMRT_CONTEXT();
  CUkernel kernel = simrt::find_kernel(from.func);
  if (kernel == nullptr) return simrt::fail(cudaErrorInvalidDeviceFunction);
  *to = {};
  to->func = reinterpret_cast<CUfunction>(kernel);
  to->gridDimX = from.gridDim.x;
  to->gridDimY = from.gridDim.y;
  to->gridDimZ = from.gridDim.z;
  to->blockDimX = from.blockDim.x;
  to->blockDimY = from.blockDim.y;
  to->blockDimZ = from.blockDim.z;
  to->sharedMemBytes = from.sharedMemBytes;
  to->kernelParams = from.kernelParams;
  to->extra = from.extra;
  return cudaSuccess;
}

CUDA_MEMSET_NODE_PARAMS set_params(const cudaMemsetParams& from) {
  CUDA_MEMSET_NODE_PARAMS to{};
  to.dst = address(from.dst);
  to.pitch = from.pitch;
  to.value = from.value;
  to.elementSize = from.elementSize;
  to.width = from.width;
  to.height = from.height;
  return to;
}

CUDA_MEMCPY3D copy_params(const cudaMemcpy3DParms& from) {
  CUDA_MEMCPY3D to{};
  to.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  to.srcDevice = address(from.srcPtr.ptr);
  to.srcPitch = from.srcPtr.pitch;
  to.srcHeight = from.srcPtr.ysize;
  to.srcXInBytes = from.srcPos.x;
  to.srcY = from.srcPos.y;
  to.srcZ = from.srcPos.z;
  to.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  to.dstDevice = address(from.dstPtr.ptr);
  to.dstPitch = from.dstPtr.pitch;
  to.dstHeight = from.dstPtr.ysize;
  to.dstXInBytes = from.dstPos.x;
  to.dstY = from.dstPos.y;
  to.dstZ = from.dstPos.z;
  to.WidthInBytes = from.extent.width;
  to.Height = from.extent.height;
  to.Depth = from.extent.depth;
  return to;
}

CUDA_MEMCPY3D linear_params(void* dst, const void* src, size_t count) {
  CUDA_MEMCPY3D to{};
  to.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  to.srcDevice = address(src);
  to.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  to.dstDevice = address(dst);
  to.WidthInBytes = count;
  to.Height = 1;
  to.Depth = 1;
  return to;
}

}  // namespace

cudaError_t RT(cudaGraphCreate)(cudaGraph_t* pGraph, unsigned int flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphCreate(pGraph, flags));
}
cudaError_t RT(cudaGraphDestroy)(cudaGraph_t graph) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphDestroy(graph));
}
cudaError_t RT(cudaGraphClone)(cudaGraph_t* pGraphClone, cudaGraph_t originalGraph) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphClone(pGraphClone, originalGraph));
}
cudaError_t RT(cudaGraphAddEmptyNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t* pDependencies,
                                      size_t numDependencies) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies));
}
cudaError_t RT(cudaGraphAddKernelNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                       const cudaKernelNodeParams* pNodeParams) {
  CUDA_KERNEL_NODE_PARAMS params;
  cudaError_t error = kernel_params(*pNodeParams, &params);
  if (error != cudaSuccess) return error;
  return finish(
      driver().cuGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, &params));
}
cudaError_t RT(cudaGraphAddMemcpyNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                       const cudaMemcpy3DParms* pCopyParams) {
  SIMRT_CONTEXT();
  CUDA_MEMCPY3D params = copy_params(*pCopyParams);
  return finish(driver().cuGraphAddMemcpyNode(pGraphNode, graph, pDependencies, numDependencies,
                                              &params, nullptr));
}
cudaError_t RT(cudaGraphAddMemcpyNode1D)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                         const cudaGraphNode_t* pDependencies,
                                         size_t numDependencies, void* dst, const void* src,
                                         size_t count, cudaMemcpyKind) {
  SIMRT_CONTEXT();
  CUDA_MEMCPY3D params = linear_params(dst, src, count);
  return finish(driver().cuGraphAddMemcpyNode(pGraphNode, graph, pDependencies, numDependencies,
                                              &params, nullptr));
}
cudaError_t RT(cudaGraphAddMemsetNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                       const cudaMemsetParams* pMemsetParams) {
  SIMRT_CONTEXT();
  CUDA_MEMSET_NODE_PARAMS params = set_params(*pMemsetParams);
  return finish(driver().cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies,
                                              &params, nullptr));
}
cudaError_t RT(cudaGraphAddHostNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                     const cudaHostNodeParams* pNodeParams) {
  SIMRT_CONTEXT();
  CUDA_HOST_NODE_PARAMS params{pNodeParams->fn, pNodeParams->userData};
  return finish(
      driver().cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies, &params));
}
cudaError_t RT(cudaGraphAddEventRecordNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                            const cudaGraphNode_t* pDependencies,
                                            size_t numDependencies, cudaEvent_t event) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies, event));
}
cudaError_t RT(cudaGraphAddEventWaitNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                          const cudaGraphNode_t* pDependencies,
                                          size_t numDependencies, cudaEvent_t event) {
  SIMRT_CONTEXT();
  return finish(
      driver().cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event));
}
cudaError_t RT(cudaGraphAddChildGraphNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t* pDependencies,
                                           size_t numDependencies, cudaGraph_t childGraph) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies,
                                                  childGraph));
}
cudaError_t RT(cudaGraphAddDependencies)(cudaGraph_t graph, const cudaGraphNode_t* from,
                                         const cudaGraphNode_t* to,
                                         const cudaGraphEdgeData* edgeData,
                                         size_t numDependencies) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphAddDependencies(
      graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edgeData), numDependencies));
}
cudaError_t RT(cudaGraphGetNodes)(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphGetNodes(graph, nodes, numNodes));
}
cudaError_t RT(cudaGraphGetRootNodes)(cudaGraph_t graph, cudaGraphNode_t* pRootNodes,
                                      size_t* pNumRootNodes) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes));
}
cudaError_t RT(cudaGraphGetEdges)(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                  cudaGraphEdgeData* edgeData, size_t* numEdges) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphGetEdges(graph, from, to,
                                         reinterpret_cast<CUgraphEdgeData*>(edgeData), numEdges));
}
cudaError_t RT(cudaGraphNodeGetType)(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(pType)));
}
cudaError_t RT(cudaGraphDestroyNode)(cudaGraphNode_t node) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphDestroyNode(node));
}
cudaError_t RT(cudaGraphKernelNodeGetParams)(cudaGraphNode_t node,
                                             cudaKernelNodeParams* pNodeParams) {
  SIMRT_CONTEXT();
  CUDA_KERNEL_NODE_PARAMS from{};
  CUresult result = driver().cuGraphKernelNodeGetParams(node, &from);
  *pNodeParams = {};
  pNodeParams->func = from.func;
  pNodeParams->gridDim = dim3(from.gridDimX, from.gridDimY, from.gridDimZ);
  pNodeParams->blockDim = dim3(from.blockDimX, from.blockDimY, from.blockDimZ);
  pNodeParams->sharedMemBytes = from.sharedMemBytes;
  pNodeParams->kernelParams = from.kernelParams;
  pNodeParams->extra = from.extra;
  return finish(result);
}
cudaError_t RT(cudaGraphKernelNodeSetParams)(cudaGraphNode_t node,
                                             const cudaKernelNodeParams* pNodeParams) {
  CUDA_KERNEL_NODE_PARAMS params;
  cudaError_t error = kernel_params(*pNodeParams, &params);
  return error != cudaSuccess ? error : finish(driver().cuGraphKernelNodeSetParams(node, &params));
}
cudaError_t RT(cudaGraphInstantiate)(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                     unsigned long long flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}
cudaError_t RT(cudaGraphInstantiateWithFlags)(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                              unsigned long long flags) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}
cudaError_t RT(cudaGraphInstantiateWithParams)(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                               cudaGraphInstantiateParams* instantiateParams) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphInstantiateWithParams(
      pGraphExec, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(instantiateParams)));
}
cudaError_t RT(cudaGraphExecDestroy)(cudaGraphExec_t graphExec) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphExecDestroy(graphExec));
}
cudaError_t RT(cudaGraphUpload)(cudaGraphExec_t graphExec, cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphUpload(graphExec, stream));
}
cudaError_t RT(cudaGraphLaunch)(cudaGraphExec_t graphExec, cudaStream_t stream) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphLaunch(graphExec, stream));
}
cudaError_t RT(cudaGraphExecUpdate)(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                    cudaGraphExecUpdateResultInfo* resultInfo) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphExecUpdate(
      hGraphExec, hGraph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(resultInfo)));
}
cudaError_t RT(cudaGraphExecKernelNodeSetParams)(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 const cudaKernelNodeParams* pNodeParams) {
  CUDA_KERNEL_NODE_PARAMS params;
  cudaError_t error = kernel_params(*pNodeParams, &params);
  if (error != cudaSuccess) return error;
  return finish(driver().cuGraphExecKernelNodeSetParams(hGraphExec, node, &params));
}
cudaError_t RT(cudaGraphExecMemcpyNodeSetParams1D)(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                   void* dst, const void* src, size_t count,
                                                   cudaMemcpyKind) {
  SIMRT_CONTEXT();
  CUDA_MEMCPY3D params = linear_params(dst, src, count);
  return finish(driver().cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &params, nullptr));
}
cudaError_t RT(cudaGraphExecHostNodeSetParams)(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                               const cudaHostNodeParams* pNodeParams) {
  SIMRT_CONTEXT();
  CUDA_HOST_NODE_PARAMS params{pNodeParams->fn, pNodeParams->userData};
  return finish(driver().cuGraphExecHostNodeSetParams(hGraphExec, node, &params));
}
cudaError_t RT(cudaDeviceGraphMemTrim)(int) { return cudaSuccess; }
cudaError_t RT(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                             cudaGraphEdgeData* edgeData,
                                             size_t* pNumDependencies) {
  SIMRT_CONTEXT();
  return finish(driver().cuGraphNodeGetDependencies(
      node, pDependencies, reinterpret_cast<CUgraphEdgeData*>(edgeData), pNumDependencies));
}
cudaError_t RT(cudaGraphExecMemsetNodeSetParams)(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 const cudaMemsetParams* pNodeParams) {
  SIMRT_CONTEXT();
  CUDA_MEMSET_NODE_PARAMS params = set_params(*pNodeParams);
  return finish(driver().cuGraphExecMemsetNodeSetParams(hGraphExec, node, &params, nullptr));
}
cudaError_t RT(cudaGraphExecMemcpyNodeSetParams)(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 const cudaMemcpy3DParms* pNodeParams) {
  SIMRT_CONTEXT();
  CUDA_MEMCPY3D params = copy_params(*pNodeParams);
  return finish(driver().cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &params, nullptr));
}
