// SPDX-License-Identifier: Apache-2.0
//
// A program without a dynamic loader: nothing can be put into it.
#include <stdio.h>
#include <unistd.h>

int main(void) {
  printf("ready\n");
  fflush(stdout);
  for (;;) pause();
}
