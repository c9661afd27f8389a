/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for libgpuidle.so in the test of the public header: every function answers with a
 * number that only it can have given. */
#define GPUIDLE_IMPLEMENTATION
#include <gpuidle/gpuidle.h>
#include <string.h>

int gpuidle_is_active(void) { return 41; }
int gpuidle_start(void) { return 42; }
int gpuidle_stop(void) { return 43; }
int gpuidle_mark_step(const char* name) { return strcmp(name, "train") == 0 ? 44 : -1; }
int gpuidle_range_push(const char* name) { return strcmp(name, "load batch") == 0 ? 45 : -1; }
int gpuidle_range_pop(void) { return 46; }
int gpuidle_mark(const char* name) { return strcmp(name, "checkpoint") == 0 ? 47 : -1; }
