// SPDX-License-Identifier: Apache-2.0
//
// What the cycles of attach_cycles_test.py put into a program instead of the recorder, a thousand
// times: it has the recorder's door and, like it, starts a thread there and nothing else.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>

namespace {

void* end_at_once(void*) { return nullptr; }

}  // namespace

extern "C" __attribute__((visibility("default"))) int gpuidle_boot() {
#ifdef ATTACH_PROBE_IS_SLOW
  // Long enough to be killed in: says that it is inside, in the program's folder.
  const int fd = open("inside", O_WRONLY | O_CREAT, 0600);
  if (fd >= 0) close(fd);
  usleep(1'500'000);
#endif
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, &end_at_once, nullptr);
  pthread_attr_destroy(&attributes);
  errno = EXDEV;  // as any call may leave it; the program must not find it
  return error;
}
