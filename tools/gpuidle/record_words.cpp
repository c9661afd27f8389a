// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/record_words.h"

#include <cstddef>

namespace gpuidle::cli {
namespace {

// Indexed by the numbers of the enumerations, which are those of the file format.
constexpr const char* kActivityKinds[] = {"unknown", "kernel", "memcpy", "memset", "graph"};
constexpr const char* kCopyKinds[] = {"unknown",          "host_to_device", "device_to_host",
                                      "device_to_device", "host_to_host",   "peer"};
constexpr const char* kMemoryKinds[] = {"unknown", "pageable", "pinned",        "device",
                                        "array",   "managed",  "device_static", "managed_static"};
constexpr const char* kApiRoles[] = {"other",         "launch",    "graph_launch", "copy",
                                     "copy_blocking", "set",       "set_blocking", "host_function",
                                     "sync",          "alloc",     "free",         "module_load",
                                     "graph_build",   "event_wait"};
constexpr const char* kMarkerKinds[] = {"instant", "range", "step"};
constexpr const char* kThreadActivities[] = {"unknown", "running", "runnable", "waiting", "ended"};
constexpr const char* kWaitTargets[] = {
    "unknown",      "lock",         "interpreter_lock", "sleep",  "child_process",
    "pipe",         "local_socket", "external_socket",  "socket", "local_file",
    "network_file", "file",         "device",           "event",  "page_fault"};

template <typename Enumeration, std::size_t kCount>
const char* word(const char* const (&words)[kCount], Enumeration value) {
  const auto number = static_cast<std::size_t>(value);
  return number < kCount ? words[number] : "unknown";
}

}  // namespace

const char* word_of(model::ActivityKind kind) { return word(kActivityKinds, kind); }
const char* word_of(model::CopyKind kind) { return word(kCopyKinds, kind); }
const char* word_of(model::MemoryKind kind) { return word(kMemoryKinds, kind); }
const char* word_of(model::ApiRole role) { return word(kApiRoles, role); }
const char* word_of(model::Marker::Kind kind) { return word(kMarkerKinds, kind); }
const char* word_of(model::ThreadActivity activity) { return word(kThreadActivities, activity); }
const char* word_of(model::WaitTarget target) { return word(kWaitTargets, target); }

}  // namespace gpuidle::cli
