/* SPDX-License-Identifier: Apache-2.0
 *
 * gpuidle.h - tell the GPU idle profiler what your program is doing.
 *
 * Needed by nobody: `gpuidle run -- program` works without it. It helps a report to speak of your
 * steps and phases, and it lets a program choose what is recorded. Link nothing; ship it as it is:
 * where the profiler is not loaded each call is one load and one branch.
 *
 *     #include <gpuidle/gpuidle.h>
 *
 *     int main(void) {
 *       for (int step = 0; step < 1000; ++step) {
 *         gpuidle_mark_step("train");
 *         gpuidle_range_push("load batch");
 *         load_batch();
 *         gpuidle_range_pop();
 *         launch_kernels();
 *       }
 *       return 0;
 *     }
 *
 *     $ cc -o program program.c ...
 *     $ gpuidle run -- ./program                       everything, with steps and ranges
 *     $ gpuidle run --start manual -- ./program        only between gpuidle_start and gpuidle_stop
 *
 * What it does not do: it never starts the profiler in a program that was not run under it, never
 * initialises CUDA, never waits for a device, prints nothing.
 *
 * C99 or C++11, GCC or Clang, Linux. The object must be compiled with -fPIE or -fPIC, as compilers
 * of today's distributions do by default: with -fno-pie the linker settles weak symbols for good,
 * and the calls stay without effect (they are still safe).
 *
 * Stability: within version 0 names may still change; from 1.0 on, functions are only added.
 */
#ifndef GPUIDLE_GPUIDLE_H
#define GPUIDLE_GPUIDLE_H

#define GPUIDLE_VERSION_MAJOR 0
#define GPUIDLE_VERSION_MINOR 1

/* What the functions return. */
#define GPUIDLE_OK 0            /* noted */
#define GPUIDLE_NOT_RECORDING 1 /* nothing to do: no profiler here, or recording is stopped */
#define GPUIDLE_NO_RANGE 2      /* gpuidle_range_pop: this thread has no open range */

#ifdef __cplusplus
extern "C" {
#endif

/* For all functions: any thread may call them at any time, also before CUDA is used (nothing is
 * recorded then) and in a forked child (nothing is recorded until the child uses CUDA itself).
 * errno is kept. Names are copied, at most 120 bytes of them; NULL counts as "". None may be called
 * from a signal handler but those that say so. Costs are with the profiler recording. */
#ifdef GPUIDLE_IMPLEMENTATION /* the profiler itself, which defines them */
#define GPUIDLE_FUNCTION(name, parameters, arguments) int name parameters;
#else
/* Two symbols, since an unoptimised build emits the inline function as one of its own. */
#define GPUIDLE_FUNCTION(name, parameters, arguments)                                 \
  extern int name##_if_loaded parameters __asm__(#name) __attribute__((weak));        \
  static inline int name parameters __asm__(#name "_inline") __attribute__((unused)); \
  static inline int name parameters {                                                 \
    return name##_if_loaded ? name##_if_loaded arguments : GPUIDLE_ABSENT_##name;     \
  }
#endif
#define GPUIDLE_ABSENT_gpuidle_is_active 0
#define GPUIDLE_ABSENT_gpuidle_start GPUIDLE_NOT_RECORDING
#define GPUIDLE_ABSENT_gpuidle_stop GPUIDLE_NOT_RECORDING
#define GPUIDLE_ABSENT_gpuidle_mark_step GPUIDLE_NOT_RECORDING
#define GPUIDLE_ABSENT_gpuidle_range_push GPUIDLE_NOT_RECORDING
#define GPUIDLE_ABSENT_gpuidle_range_pop GPUIDLE_NOT_RECORDING
#define GPUIDLE_ABSENT_gpuidle_mark GPUIDLE_NOT_RECORDING

/* int gpuidle_is_active(void)
 *
 * 1 while this process is being recorded, else 0: no profiler, CUDA not used yet, stopped, or
 * stepped down to off. Use it to skip work that only serves the recording, such as putting a name
 * together. Cost: about 1 ns. Signal-safe. */
GPUIDLE_FUNCTION(gpuidle_is_active, (void), ())

/* int gpuidle_start(void)
 *
 * Starts recording, or resumes after gpuidle_stop(). With GPUIDLE_START=manual nothing is recorded
 * before the first call; before CUDA is in use it is remembered. Starting twice is one start.
 * Time that was not recorded shows as "not observed" in reports, never as idle.
 * GPUIDLE_NOT_RECORDING: no profiler here, or it is off for a reason that it has told.
 * Cost: microseconds. Takes a lock. */
GPUIDLE_FUNCTION(gpuidle_start, (void), ())

/* int gpuidle_stop(void)
 *
 * Stops recording host calls and marks until gpuidle_start(). Does not wait for the device: work
 * that is queued may still be seen. GPUIDLE_NOT_RECORDING: it was not recording.
 * Cost: microseconds. Takes a lock. */
GPUIDLE_FUNCTION(gpuidle_stop, (void), ())

/* int gpuidle_mark_step(const char* name)
 *
 * A step of the program's main loop begins here (and the one before it ends). Reports give figures
 * per step. Call it from one thread. Cost: about 50 ns; never blocks, drops the mark and counts it
 * when the profiler is behind. */
GPUIDLE_FUNCTION(gpuidle_mark_step, (const char* name), (name))

/* int gpuidle_range_push(const char* name)
 * int gpuidle_range_pop(void)
 *
 * A phase of this thread, e.g. "load batch". Ranges nest, 64 deep; deeper ones are not kept, though
 * pops must still match. A range that is never popped is not recorded. Cost: about 50 ns each, the
 * first push of a thread allocates a few KiB. */
GPUIDLE_FUNCTION(gpuidle_range_push, (const char* name), (name))
GPUIDLE_FUNCTION(gpuidle_range_pop, (void), ())

/* int gpuidle_mark(const char* name)
 *
 * A moment worth seeing, e.g. "checkpoint written". Cost: about 50 ns; never blocks. */
GPUIDLE_FUNCTION(gpuidle_mark, (const char* name), (name))

#undef GPUIDLE_FUNCTION

#ifdef __cplusplus
}
#endif

#endif /* GPUIDLE_GPUIDLE_H */
