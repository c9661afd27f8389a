// SPDX-License-Identifier: Apache-2.0
//
// The door between the interposed CUDA functions and whoever records them. intercept/ calls
// through it; session.cpp puts a sink in while host calls are wanted from here (interposition mode)
// and takes it out otherwise. With no sink every wrapper only forwards: one load, one branch.
#pragma once

#include <atomic>
#include <cstdint>

#include "libgpuidle/model/records.h"

namespace gpuidle::intercept {

/// Receives the calls of all threads, nested ones too (a runtime call's inner driver call): the
/// receiver keeps the outermost. Every enter() is followed by one exit() on the same thread and on
/// the same sink, even if the sink was taken out in between. Both may change errno.
/// Context: hook.
struct HostCallSink {
  /// `api` is the row in model/cuda_api.def, counted from 0.
  void (*enter)(std::uint16_t api, model::ApiRole role) noexcept;
  /// `result` is CUDA's, 0 = success.
  void (*exit)(std::int32_t result) noexcept;
};

/// The sink in force, nullptr = none. A sink that was ever set must stay valid for the life of the
/// process: a thread may still be between its enter() and exit().
/// Context: hook (load), control (store).
extern std::atomic<const HostCallSink*> g_host_call_sink;

/// Implemented by the session: CUDA works in this process. Called after the first cuInit that
/// succeeded, through whatever path, once per process (a forked child that initialises CUDA for
/// itself is another process), on the thread that called it, before that thread's cuInit returns.
/// Context: control.
void on_cuda_init(int cu_result) noexcept;

}  // namespace gpuidle::intercept
