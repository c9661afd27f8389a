/* SPDX-License-Identifier: Apache-2.0
 *
 * The public header, alone and used to the full. Compiled as C99 and as C++11 with all warnings as
 * errors; prints what each function returned, so that a test can compare with and without library.
 */
#include <gpuidle/gpuidle.h>
#include <stdio.h>

int main(void) {
  printf("active %d\n", gpuidle_is_active());
  printf("start %d\n", gpuidle_start());
  printf("step %d\n", gpuidle_mark_step("train"));
  printf("push %d\n", gpuidle_range_push("load batch"));
  printf("pop %d\n", gpuidle_range_pop());
  printf("mark %d\n", gpuidle_mark("checkpoint"));
  printf("stop %d\n", gpuidle_stop());
  return 0;
}
