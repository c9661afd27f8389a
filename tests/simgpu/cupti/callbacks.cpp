// SPDX-License-Identifier: Apache-2.0
// Subscription and callbacks; the Tool that the simulated driver calls.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "cupti/release.h"
#include "cupti/state.h"
#include "device/settings.h"

namespace simcupti {
constexpr int kDomains = 7;
constexpr int kCallbacks = 1024;
}  // namespace simcupti

struct CUpti_Subscriber_st {
  std::atomic<bool> is_live{false};
  bool shares = false;  // subscribed with allowMultipleSubscribers
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  char name[CUPTI_SUBSCRIBER_NAME_MAX_LEN + 1] = {};
  std::atomic<uint8_t> enabled[simcupti::kDomains][simcupti::kCallbacks] = {};
};

namespace simcupti {
namespace {

std::mutex mutex;
CUpti_Subscriber_st subscribers[kMaxSubscribers];
// How many subscribers want a callback.
std::atomic<int> wanted[kDomains][kCallbacks];
std::atomic<bool> has_subscriber{false};
std::atomic<bool> has_activity{false};

// A callback may itself call CUDA; such calls are not reported.
thread_local bool in_callback = false;
thread_local unsigned call_depth = 0;

void invoke(CUpti_CallbackDomain domain, uint32_t cbid, const void* argument) {
  if (in_callback) return;
  in_callback = true;
  for (CUpti_Subscriber_st& target : subscribers) {
    if (!target.is_live.load(std::memory_order_acquire) || !target.enabled[domain][cbid]) continue;
    target.callback(target.user, domain, cbid, argument);
  }
  in_callback = false;
}

bool wants(uint32_t domain, uint32_t cbid) {
  return domain < kDomains && cbid < kCallbacks &&
         wanted[domain][cbid].load(std::memory_order_relaxed) != 0;
}

void report_call(simgpu::Call* call, CUpti_ApiCallbackSite site) {
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = call->site->name;
  data.functionParams = call->params;
  data.functionReturnValue = site == CUPTI_API_EXIT ? &call->result : nullptr;
  data.symbolName = call->symbol;
  data.context = hub()->current_context();
  data.contextUid = data.context ? hub()->context_id(data.context) : 0;
  data.correlationData = &call->correlation_data;
  data.correlationId = call->correlation;
  invoke(static_cast<CUpti_CallbackDomain>(call->site->domain), call->site->cbid, &data);
}

void call_enter(simgpu::Call* call) {
  if (call_depth++ == 0) record_external_correlation(call->correlation);
  if (wants(call->site->domain, call->site->cbid)) {
    call->entered = true;
    report_call(call, CUPTI_API_ENTER);
  }
  call->start_ns = hub()->now_ns();
}

void call_leave(simgpu::Call* call) {
  --call_depth;
  record_call(*call);
  if (call->entered) report_call(call, CUPTI_API_EXIT);
}

void resource(simgpu::ResourceEvent event, CUctx_st* context, CUstream_st* stream) {
  bool any = event == simgpu::ResourceEvent::init_finished;
  record_resource(event, any ? 0 : hub()->context_id(context),
                  stream ? hub()->stream_id(context, stream, false) : 0);
  auto cbid = static_cast<uint32_t>(event);  // numbered alike
  if (!wants(CUPTI_CB_DOMAIN_RESOURCE, cbid)) return;
  CUpti_ResourceData data{};
  data.context = context;
  data.resourceHandle.stream = stream;
  invoke(CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

void host_wait(const simgpu::HostWait& wait) {
  record_host_wait(wait);
  using simgpu::WaitKind;
  if (wait.kind != WaitKind::stream && wait.kind != WaitKind::context) return;
  uint32_t cbid = wait.kind == WaitKind::stream ? CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED
                                                : CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED;
  if (!wants(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid)) return;
  CUpti_SynchronizeData data{wait.context_handle, wait.stream_handle};
  invoke(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid, &data);
}

const simgpu::Tool tool = {call_enter, call_leave, record_operation, host_wait, resource};

// 13.2 appended the wish to share to the 32 bytes that the build's header declares.
bool wants_to_share(const CUpti_SubscriberParams* params) {
  constexpr size_t kShareOffset = 32;
  if (params == nullptr || params->structSize <= kShareOffset) return false;
  return reinterpret_cast<const unsigned char*>(params)[kShareOffset] != 0;
}

CUpti_Subscriber_st* first_subscriber() {
  for (CUpti_Subscriber_st& one : subscribers) {
    if (one.is_live) return &one;
  }
  return nullptr;
}

CUptiResult refuse(const CUpti_Subscriber_st* holder, CUpti_SubscriberParams* params) {
  if (holder && params && params->oldSubscriberName) {
    std::snprintf(params->oldSubscriberName, params->oldSubscriberSize, "CUPTI for %s",
                  holder->name);
  }
  return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}

CUptiResult subscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* userdata,
                      CUpti_SubscriberParams* params) {
  if (int64_t code = simgpu::fault("subscribe"); code > 0) return static_cast<CUptiResult>(code);
  if (handle == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (hub() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  bool shares = wants_to_share(params);
  if (shares && reported_version() < kFirstSharedVersion) return CUPTI_ERROR_NOT_SUPPORTED;
  std::lock_guard<std::mutex> lock(mutex);
  const CUpti_Subscriber_st* first = first_subscriber();
  if (first && !(first->shares && shares)) return refuse(first, params);
  if (shares && has_process_wide_activity()) return refuse(nullptr, params);
  for (CUpti_Subscriber_st& one : subscribers) {
    if (one.is_live) continue;
    one.callback = callback;
    one.user = userdata;
    one.shares = shares;
    std::snprintf(one.name, sizeof one.name, "%s",
                  params && params->subscriberName ? params->subscriberName : "");
    one.is_live.store(true, std::memory_order_release);
    *handle = &one;
    set_has_subscriber(true);
    return CUPTI_SUCCESS;
  }
  return refuse(first, params);
}

bool is_subscriber(CUpti_SubscriberHandle handle) {
  return handle >= subscribers && handle < subscribers + kMaxSubscribers && handle->is_live;
}

void set_callback(CUpti_Subscriber_st& one, uint32_t domain, uint32_t cbid, bool enable) {
  if (!knows_call(domain, cbid)) return;
  if (one.enabled[domain][cbid].exchange(enable) != enable) wanted[domain][cbid] += enable ? 1 : -1;
}

void set_domain(CUpti_Subscriber_st& one, uint32_t domain, bool enable) {
  for (uint32_t cbid = 0; cbid < kCallbacks; ++cbid) set_callback(one, domain, cbid, enable);
}

}  // namespace

simgpu::Hub* hub() {
  static std::atomic<simgpu::Hub*> found{nullptr};
  simgpu::Hub* value = found.load(std::memory_order_acquire);
  if (value != nullptr) return value;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  using GetHub = simgpu::Hub* (*)();
  auto get = library ? reinterpret_cast<GetHub>(dlsym(library, "simcuda_hub")) : nullptr;
  if (get == nullptr) return nullptr;
  value = get();
  found.store(value, std::memory_order_release);
  return value;
}

int shared_index(CUpti_SubscriberHandle handle) {
  return is_subscriber(handle) && handle->shares ? static_cast<int>(handle - subscribers) : -1;
}

bool is_shared() {
  const CUpti_Subscriber_st* first = first_subscriber();
  return first && first->shares;
}

void attach() {
  if (hub() == nullptr) return;
  hub()->tool.store(has_subscriber || has_activity ? &tool : nullptr, std::memory_order_release);
}

void set_has_subscriber(bool value) {
  has_subscriber = value;
  attach();
}

void set_has_activity(bool value) {
  has_activity = value;
  attach();
}

}  // namespace simcupti

using simcupti::result;

CUptiResult CUPTI(cuptiSubscribe)(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                  void* userdata) {
  return result(simcupti::subscribe(subscriber, callback, userdata, nullptr));
}

CUptiResult CUPTI(cuptiSubscribe_v2)(CUpti_SubscriberHandle* subscriber,
                                     CUpti_CallbackFunc callback, void* userdata,
                                     CUpti_SubscriberParams* pParams) {
  return result(simcupti::subscribe(subscriber, callback, userdata, pParams));
}

CUptiResult CUPTI(cuptiUnsubscribe)(CUpti_SubscriberHandle subscriber) {
  std::lock_guard<std::mutex> lock(simcupti::mutex);
  if (!simcupti::is_subscriber(subscriber)) return result(CUPTI_ERROR_INVALID_PARAMETER);
  if (int client = simcupti::shared_index(subscriber); client >= 0) simcupti::drop_client(client);
  for (uint32_t domain = 0; domain < simcupti::kDomains; ++domain) {
    simcupti::set_domain(*subscriber, domain, false);
  }
  subscriber->is_live = false;
  simcupti::set_has_subscriber(simcupti::first_subscriber() != nullptr);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiEnableCallback)(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                       CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (!simcupti::is_subscriber(subscriber) || domain <= CUPTI_CB_DOMAIN_INVALID ||
      domain >= simcupti::kDomains || cbid >= simcupti::kCallbacks) {
    return result(CUPTI_ERROR_INVALID_PARAMETER);
  }
  simcupti::set_callback(*subscriber, domain, cbid, enable != 0);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiEnableDomain)(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                     CUpti_CallbackDomain domain) {
  if (!simcupti::is_subscriber(subscriber) || domain <= CUPTI_CB_DOMAIN_INVALID ||
      domain >= simcupti::kDomains) {
    return result(CUPTI_ERROR_INVALID_PARAMETER);
  }
  simcupti::set_domain(*subscriber, domain, enable != 0);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiEnableAllDomains)(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  if (!simcupti::is_subscriber(subscriber)) return result(CUPTI_ERROR_INVALID_PARAMETER);
  for (uint32_t domain = 1; domain < simcupti::kDomains; ++domain) {
    simcupti::set_domain(*subscriber, domain, enable != 0);
  }
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiGetCallbackState)(uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                         CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (!simcupti::is_subscriber(subscriber) || enable == nullptr) {
    return result(CUPTI_ERROR_INVALID_PARAMETER);
  }
  *enable = domain < simcupti::kDomains && cbid < simcupti::kCallbacks &&
            subscriber->enabled[domain][cbid];
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiSupportedDomains)(size_t* domainCount, CUpti_DomainTable* domainTable) {
  static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                           CUPTI_CB_DOMAIN_RESOURCE,   CUPTI_CB_DOMAIN_SYNCHRONIZE,
                                           CUPTI_CB_DOMAIN_NVTX,       CUPTI_CB_DOMAIN_STATE};
  *domainCount = sizeof domains / sizeof domains[0];
  *domainTable = domains;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTI(cuptiFinalize)(void) {
  if (simcupti::is_shared()) return CUPTI_SUCCESS;  // others may still be there
  if (auto* only = simcupti::first_subscriber()) CUPTI(cuptiUnsubscribe)(only);
  for (int kind = 1; kind < CUPTI_ACTIVITY_KIND_COUNT; ++kind) {
    cuptiActivityDisable(static_cast<CUpti_ActivityKind>(kind));
  }
  return CUPTI_SUCCESS;
}
