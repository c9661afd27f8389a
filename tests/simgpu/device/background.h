// SPDX-License-Identifier: Apache-2.0
// Threads of the stand-ins: named, without the program's signals, never joined.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>

namespace simgpu {

template <typename Body>
void start_background_thread(const char* name, Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(body);
  pthread_setname_np(thread.native_handle(), name);
  thread.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace simgpu
