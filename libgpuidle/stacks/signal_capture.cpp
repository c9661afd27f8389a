// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/signal_capture.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "libgpuidle/base/own_thread.h"
#include "libgpuidle/record/host_clock.h"
#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/python_frames.h"

namespace gpuidle::stacks {
namespace {

// The one request. The buffers are here and not on the stack of the handler, which may run on a
// small alternate stack of the program's.
struct Request {
  enum State : std::uint32_t { idle = 0, wanted = 1, being_taken = 2, taken = 3 };
  std::atomic<std::uint32_t> state{idle};  // futex
  std::atomic<int> tid{0};
  int max_words = 0;
  int count = 0;
  bool is_cut = false;
  NativeFrame native[CallStack::kMaxFrames];
  std::uint64_t words[CallStack::kMaxFrames];
  PeekedPython python;
};
Request g_request;  // zeros, untouched until it is used

void on_signal(int, siginfo_t*, void* context) {
  const int host_errno = errno;
  const int tid = static_cast<int>(syscall(SYS_gettid));
  std::uint32_t expected = Request::wanted;
  if (g_request.tid.load(std::memory_order_acquire) == tid &&
      g_request.state.compare_exchange_strong(expected, Request::being_taken,
                                              std::memory_order_acq_rel)) {
    const int count = CallStack::capture_interrupted(
        context, g_request.native, std::min(g_request.max_words, CallStack::kMaxFrames),
        &g_request.is_cut);
    g_request.count = PythonFrames::capture_interrupted(g_request.native, count, g_request.words,
                                                        g_request.max_words, &g_request.python,
                                                        &g_request.is_cut);
    g_request.state.store(Request::taken, std::memory_order_release);
    base::futex_wake(g_request.state);
  }
  errno = host_errno;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_signal;
}

bool is_default(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

// True: somebody answered.
bool wait_for_answer(std::int64_t timeout_ns) {
  const std::int64_t deadline_ns = record::host_now_ns() + timeout_ns;
  for (;;) {
    const std::uint32_t state = g_request.state.load(std::memory_order_acquire);
    if (state == Request::taken) return true;
    const std::int64_t left_ns = deadline_ns - record::host_now_ns();
    if (left_ns <= 0) return false;
    base::futex_wait(g_request.state, state, left_ns);
  }
}

}  // namespace

// Looked at before each signal: a program may install a handler of its own at any time.
bool SignalCapture::own_signal() {
  if (refusal_[0] != '\0') return false;
  struct sigaction action {};
  sigaction(kSignal, nullptr, &action);
  if (is_installed_ && is_ours(action)) return true;
  if (is_installed_ || !is_default(action)) {
    refusal_ = "the program uses the signal SIGURG itself";
    return false;
  }
  struct sigaction own {};
  own.sa_sigaction = &on_signal;
  own.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&own.sa_mask);
  // Faults stay what they are for the program: its handler, or its end.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&own.sa_mask, fault);
  if (sigaction(kSignal, &own, nullptr) != 0) {
    refusal_ = "the system refuses a handler for SIGURG";
    return false;
  }
  is_installed_ = true;
  return true;
}

SignalCapture::Answer SignalCapture::take(int tid, int max_words, std::int64_t timeout_ns,
                                          const std::uint64_t** words, int* count, bool* is_cut) {
  *words = g_request.words;
  *count = 0;
  *is_cut = false;
  if (!own_signal()) return Answer::refused;
  // A thread that was stopped in the middle of its answer: what it writes is not to be read.
  if (g_request.state.load(std::memory_order_acquire) == Request::being_taken) {
    return Answer::not_in_time;
  }
  g_request.max_words = max_words;
  g_request.count = 0;
  g_request.is_cut = false;
  g_request.tid.store(tid, std::memory_order_release);
  g_request.state.store(Request::wanted, std::memory_order_release);
  if (syscall(SYS_tgkill, getpid(), tid, kSignal) != 0) {
    g_request.state.store(Request::idle, std::memory_order_release);
    return Answer::gone;
  }
  if (!wait_for_answer(timeout_ns)) {
    std::uint32_t expected = Request::wanted;
    if (g_request.state.compare_exchange_strong(expected, Request::idle)) {
      return Answer::not_in_time;
    }
    if (!wait_for_answer(timeout_ns)) return Answer::not_in_time;
  }
  g_request.state.store(Request::idle, std::memory_order_release);
  *count = g_request.count;
  *is_cut = g_request.is_cut;
  return Answer::taken;
}

void SignalCapture::leave() {
  struct sigaction action {};
  if (!is_installed_ || sigaction(kSignal, nullptr, &action) != 0 || !is_ours(action)) return;
  // What is still on its way to a thread that blocks it is dropped by the default, too.
  action = {};
  action.sa_handler = SIG_DFL;
  sigaction(kSignal, &action, nullptr);
}

}  // namespace gpuidle::stacks
