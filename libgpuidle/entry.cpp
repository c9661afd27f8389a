// SPDX-License-Identifier: Apache-2.0
//
// The front door: what the loader, the CUDA driver and the program itself call by name. Everything
// here is a border that no exception crosses. Loading the library does nothing: it sleeps until
// CUDA starts.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#define GPUIDLE_IMPLEMENTATION
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

// Writes a mark that begins and ends now.
int mark_now(model::Marker::Kind kind, const char* name) {
  if (record::g_gate.epoch() == 0) return GPUIDLE_NOT_RECORDING;
  const int host_errno = errno;
  const std::int64_t now_ns = record::host_now_ns();
  record::g_recorder.mark(kind, name, now_ns, now_ns);
  errno = host_errno;
  return GPUIDLE_OK;
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
  for (;;) syscall(SYS_exit_group, status);
}

__attribute__((destructor)) void on_unload() { session::Session::instance().finish(); }

}  // namespace
}  // namespace gpuidle

// The driver calls this in cuInit when CUDA_INJECTION64_PATH names the library.
GPUIDLE_EXPORT int InitializeInjection(void) {
  gpuidle::session::Session::instance().activate();
  return 1;
}

// 'gpuidle attach' has a thread of the program call this: it starts a thread of ours and does
// nothing else, since the borrowed one may hold the driver's locks. 0: started, or there already.
GPUIDLE_EXPORT int gpuidle_boot(void) {
  return gpuidle::session::Session::instance().activate_for_attach() ? 0 : 1;
}

// glibc has _Exit as another name of _exit; programs call either.
GPUIDLE_EXPORT void _exit(int status) { gpuidle::exit_at_once(status, "_exit"); }
GPUIDLE_EXPORT void _Exit(int status) noexcept { gpuidle::exit_at_once(status, "_exit"); }

// The runtimes of the sanitizers ask for these, unless the program itself answers. That of
// AddressSanitizer ends a program in which another library comes before it, for fear of a malloc
// that is not its own: we have none. What CUPTI leaves to its client to free differs by release, so
// nothing is freed. ThreadSanitizer does not see how libraries without its instrumentation
// synchronise, ours and CUPTI, and takes what they hand each other for races.
GPUIDLE_EXPORT const char* __asan_default_options(void) { return "verify_asan_link_order=0"; }
GPUIDLE_EXPORT const char* __lsan_default_suppressions(void) {
  return "leak:libcupti.so\nleak:libgpuidle.so\n";
}
GPUIDLE_EXPORT const char* __tsan_default_suppressions(void) {
  return "called_from_lib:libgpuidle.so\nrace:libcupti.so\n";
}

GPUIDLE_EXPORT int gpuidle_is_active(void) { return gpuidle::record::g_gate.epoch() != 0 ? 1 : 0; }

GPUIDLE_EXPORT int gpuidle_start(void) {
  return gpuidle::session::Session::instance().start() ? GPUIDLE_OK : GPUIDLE_NOT_RECORDING;
}

GPUIDLE_EXPORT int gpuidle_stop(void) {
  return gpuidle::session::Session::instance().stop() ? GPUIDLE_OK : GPUIDLE_NOT_RECORDING;
}

GPUIDLE_EXPORT int gpuidle_mark(const char* name) {
  return gpuidle::mark_now(gpuidle::model::Marker::Kind::instant, name);
}

GPUIDLE_EXPORT int gpuidle_mark_step(const char* name) {
  return gpuidle::mark_now(gpuidle::model::Marker::Kind::step, name);
}

GPUIDLE_EXPORT int gpuidle_range_push(const char* name) {
  using namespace gpuidle;
  if (record::g_gate.epoch() == 0) return GPUIDLE_NOT_RECORDING;
  if (t_ranges == nullptr) t_ranges = new (std::nothrow) OpenRanges;
  if (t_ranges == nullptr) return GPUIDLE_NOT_RECORDING;
  if (t_ranges->depth < kMaxOpenRanges) {
    OpenRange& range = t_ranges->range[t_ranges->depth];
    range.start_ns = record::host_now_ns();
    const std::size_t length = name == nullptr ? 0 : strnlen(name, record::kMaxMarkerBytes);
    if (length != 0) std::memcpy(range.name, name, length);
    range.name[length] = '\0';
  }
  ++t_ranges->depth;
  return GPUIDLE_OK;
}

GPUIDLE_EXPORT int gpuidle_range_pop(void) {
  using namespace gpuidle;
  if (t_ranges == nullptr || t_ranges->depth == 0) return GPUIDLE_NO_RANGE;
  --t_ranges->depth;
  if (record::g_gate.epoch() == 0) return GPUIDLE_NOT_RECORDING;
  if (t_ranges->depth >= kMaxOpenRanges) return GPUIDLE_OK;
  const OpenRange& range = t_ranges->range[t_ranges->depth];
  const int host_errno = errno;
  record::g_recorder.mark(model::Marker::Kind::range, range.name, range.start_ns,
                          record::host_now_ns());
  errno = host_errno;
  return GPUIDLE_OK;
}
