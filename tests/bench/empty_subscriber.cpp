// SPDX-License-Identifier: Apache-2.0
//
// The yardstick for the cost of libgpuidle's own code: a CUPTI client that subscribes to the same
// calls and enables the same activity kinds and then does nothing. Loaded by the driver through
// CUDA_INJECTION64_PATH, like a profiler. Which calls: every one whose name the list of recorded
// calls holds, which is compiled in.
#include <cupti.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "libgpuidle/model/cuda_api.h"

namespace {

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void CUPTIAPI on_requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *bytes = 256 * 1024;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, *bytes));
  *max_records = 0;
}

void CUPTIAPI on_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                           std::size_t) {
  std::free(buffer);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  CUpti_SubscriberHandle subscriber = nullptr;
  if (cuptiSubscribe(&subscriber, &on_callback, nullptr) != CUPTI_SUCCESS) std::abort();
  cuptiActivityRegisterCallbacks(&on_requested, &on_completed);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_OVERHEAD}) {
    cuptiActivityEnable(kind);
  }
  for (const CUpti_CallbackDomain domain :
       {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
    for (CUpti_CallbackId id = 1; id < 2048; ++id) {
      const char* name = nullptr;
      if (cuptiGetCallbackName(domain, id, &name) != CUPTI_SUCCESS || name == nullptr) continue;
      const std::string_view base = gpuidle::model::without_variant(name);
      if (gpuidle::model::cuda_api_row(base) == gpuidle::model::kNoCudaApi) continue;
      cuptiEnableCallback(1, subscriber, domain, id);
    }
  }
  return 1;
}
