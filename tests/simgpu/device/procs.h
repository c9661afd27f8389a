/* SPDX-License-Identifier: Apache-2.0
 * The table behind cuGetProcAddress. Apart from cuda.h, whose prototypes would clash with it. */
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
struct SimgpuProc {
  const char* name;
  int version;
  int (*legacy)(void);
  int (*per_thread)(void);
};
extern const struct SimgpuProc simgpu_procs[];
extern const unsigned simgpu_proc_count;
#ifdef __cplusplus
}
#endif
