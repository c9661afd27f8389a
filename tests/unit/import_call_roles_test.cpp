// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "libgpuidle/model/cuda_api.h"

namespace gpuidle::model {
namespace {

TEST_CASE("every row of the call list is found under its own name", "[model]") {
#define GPUIDLE_CUDA_API(domain, call_role, name) CHECK(role_of(#name) == ApiRole::call_role);
#include "libgpuidle/model/cuda_api.def"
#undef GPUIDLE_CUDA_API
}

TEST_CASE("variant suffixes do not change the role", "[model]") {
  CHECK(role_of("cudaLaunchKernel_v7000") == ApiRole::launch);
  CHECK(role_of("cudaMemcpyAsync_ptsz_v7000") == ApiRole::copy);
  CHECK(role_of("cuMemcpyHtoDAsync_v2_ptsz") == ApiRole::copy);
  CHECK(role_of("cuMemcpyHtoD_v2_ptds") == ApiRole::copy_blocking);
  CHECK(without_variant("cuMemcpyHtoDAsync_v2_ptsz") == "cuMemcpyHtoDAsync");
  CHECK(without_variant("cudaMalloc3D") == "cudaMalloc3D");
  CHECK(without_variant("_v2") == "_v2");
  CHECK(without_variant("my_v2x") == "my_v2x");
}

TEST_CASE("a HIP call has the role of its CUDA counterpart", "[model]") {
  CHECK(role_of("hipLaunchKernel") == ApiRole::launch);
  CHECK(role_of("hipExtModuleLaunchKernel") == ApiRole::launch);
  CHECK(role_of("hipModuleLaunchKernel") == ApiRole::launch);
  CHECK(role_of("hipGraphLaunch") == ApiRole::graph_launch);
  CHECK(role_of("hipMemcpyAsync") == ApiRole::copy);
  CHECK(role_of("hipMemcpyDtoHAsync") == ApiRole::copy);
  CHECK(role_of("hipMemcpyWithStream") == ApiRole::copy_blocking);
  CHECK(role_of("hipDeviceSynchronize") == ApiRole::sync_blocking);
  CHECK(role_of("hipHostMalloc") == ApiRole::alloc);
  CHECK(role_of("hipModuleLoadData") == ApiRole::module_load);
}

TEST_CASE("calls that are not listed are of no role", "[model]") {
  for (const char* name : {"", "cuda", "hip", "cudaGetDevice", "hipStreamIsCapturing", "_ptsz",
                           "cudaLaunchKernelX", "CUDALAUNCHKERNEL"}) {
    INFO(name);
    CHECK(role_of(name) == ApiRole::other);
  }
  CHECK(role_of("hip" + std::string(500, 'x')) == ApiRole::other);
}

}  // namespace
}  // namespace gpuidle::model
