/* SPDX-License-Identifier: Apache-2.0
 *
 * A statically linked program: the loader preloads nothing into it. Fed by life_loading_test.py. */
#include <stdio.h>

int main(void) {
  puts("static");
  return 5;
}
