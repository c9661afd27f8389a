// SPDX-License-Identifier: Apache-2.0
//
// The calls by which another CUPTI client of the process begins, torch.profiler for one. Of the
// older calls there is one seat and one pair of buffer callbacks, so whoever comes while we have
// them would fail or take them from us unawares: we give them up first, and it works as without us.
// Only ever part of the preloaded library, whose names the loader finds before libcupti's.
#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "libgpuidle/cupti/cupti_api.h"
#include "libgpuidle/cupti/cupti_choice.h"
#include "libgpuidle/cupti/cupti_source.h"

#define GPUIDLE_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuidle::cupti {
namespace {

// The function that the caller means: in the global scope after us, or in the libcupti that it
// brought along in a scope of its own.
template <typename Function>
Function real(const char* name) {
  if (void* next = dlsym(RTLD_NEXT, name)) return reinterpret_cast<Function>(next);
  const std::string path = mapped_cuda().cupti;
  void* library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = dlsym(library, name);
  dlclose(library);  // gives back only the count that this dlopen took
  return reinterpret_cast<Function>(found);
}

// `caller` is an address in the client. Nothing is given up for one who shares, or for CUPTI
// itself.
void make_room(const void* caller) noexcept {
  Dl_info info{};
  const char* name = dladdr(caller, &info) != 0 ? info.dli_fname : nullptr;
  if (name != nullptr && std::strstr(name, "libcupti.so") != nullptr) return;
  const int host_errno = errno;
  CuptiSource::instance().yield_to(name == nullptr ? "another CUPTI client" : name);
  errno = host_errno;
}

bool wants_to_share(const SubscriberParams* params) {
  return params != nullptr && params->struct_size > kSubscriberParamsSize_13_0 &&
         params->allow_multiple_subscribers != 0;
}

}  // namespace
}  // namespace gpuidle::cupti

GPUIDLE_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber,
                                          CUpti_CallbackFunc callback, void* userdata) {
  gpuidle::cupti::make_room(__builtin_return_address(0));
  const auto function = gpuidle::cupti::real<decltype(&cuptiSubscribe)>("cuptiSubscribe");
  return function == nullptr ? CUPTI_ERROR_NOT_INITIALIZED
                             : function(subscriber, callback, userdata);
}

// By its address alone: the build's headers may not declare it, or declare older parameters.
GPUIDLE_EXPORT CUptiResult gpuidle_subscribe_v2(
    CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* userdata,
    gpuidle::cupti::SubscriberParams* params) __asm__("cuptiSubscribe_v2");
CUptiResult gpuidle_subscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                 void* userdata, gpuidle::cupti::SubscriberParams* params) {
  const bool shares =
      gpuidle::cupti::wants_to_share(params) && gpuidle::cupti::CuptiSource::instance().is_shared();
  if (!shares) gpuidle::cupti::make_room(__builtin_return_address(0));
  const auto function = gpuidle::cupti::real<decltype(&gpuidle_subscribe_v2)>("cuptiSubscribe_v2");
  return function == nullptr ? CUPTI_ERROR_NOT_INITIALIZED
                             : function(subscriber, callback, userdata, params);
}

GPUIDLE_EXPORT CUptiResult cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc requested, CUpti_BuffersCallbackCompleteFunc completed) {
  gpuidle::cupti::make_room(__builtin_return_address(0));
  const auto function = gpuidle::cupti::real<decltype(&cuptiActivityRegisterCallbacks)>(
      "cuptiActivityRegisterCallbacks");
  return function == nullptr ? CUPTI_ERROR_NOT_INITIALIZED : function(requested, completed);
}
