// SPDX-License-Identifier: Apache-2.0
//
// The front door: what the loader, the CUDA driver and the program itself call by name. Everything
// here is a border that no exception crosses. Loading the library does nothing: it sleeps until
// CUDA starts.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "include/gpuidle/gpuidle.h"
#include "libgpuidle/record/gate.h"
#include "libgpuidle/record/host_call_recorder.h"
#include "libgpuidle/session/session.h"

#define GPUIDLE_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuidle {
namespace {

constexpr int kMaxOpenRanges = 64;

struct OpenRange {
  std::int64_t start_ns;
  char name[record::kMaxMarkerBytes + 1];
};

// A thread's open ranges; allocated at the first push, so that threads without ranges carry one
// pointer. Leaked with its thread: a few KiB per thread that uses ranges.
struct OpenRanges {
  int depth = 0;
  OpenRange range[kMaxOpenRanges];
};
__attribute__((tls_model("initial-exec"))) thread_local OpenRanges* t_ranges = nullptr;

void copy_name(const char* name, char (&out)[record::kMaxMarkerBytes + 1]) {
  std::size_t length = 0;
  while (name != nullptr && length < record::kMaxMarkerBytes && name[length] != '\0') {
    out[length] = name[length];
    ++length;
  }
  out[length] = '\0';
}

void mark_now(model::Marker::Kind kind, const char* name) {
  const std::int64_t now_ns = record::host_now_ns();
  record::g_recorder.mark(kind, name, now_ns, now_ns);
}

// _exit runs no handler, so the recording is closed here. Several threads or a signal handler may
// come at once: finish() waits for the drain thread, it takes no lock.
[[noreturn]] void exit_at_once(int status, const char* name) {
  session::Session::instance().finish();
  static std::atomic<void (*)(int)> real{nullptr};
  auto* function = real.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<void (*)(int)>(dlsym(RTLD_NEXT, name));
    real.store(function, std::memory_order_relaxed);
  }
  if (function != nullptr) function(status);
  for (;;) syscall(231 /* SYS_exit_group */, status);
}

__attribute__((destructor)) void on_unload() { session::Session::instance().finish(); }

}  // namespace
}  // namespace gpuidle

// The driver calls this in cuInit when CUDA_INJECTION64_PATH names the library.
GPUIDLE_EXPORT int InitializeInjection(void) {
  gpuidle::session::Session::instance().activate();
  return 1;
}
