// SPDX-License-Identifier: Apache-2.0
//
// Built twice with two sizes of frame, and otherwise the same bytes in the same places: libraries
// that can take each other's address, and whose rules must not be confused.
#ifndef STACK_RELOAD_FRAME
#error "STACK_RELOAD_FRAME: the frame's size, 256 to 4096 bytes, 8 above a multiple of 16"
#endif
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

asm(R"(
  .text
  .globl stack_reload_call
  .type stack_reload_call, @function
stack_reload_call:
  .cfi_startproc
  subq $)" TEXT(STACK_RELOAD_FRAME) R"(, %rsp
  .cfi_adjust_cfa_offset )" TEXT(STACK_RELOAD_FRAME) R"(
  call *%rdi
  addq $)" TEXT(STACK_RELOAD_FRAME) R"(, %rsp
  .cfi_adjust_cfa_offset -)" TEXT(STACK_RELOAD_FRAME) R"(
  ret
  .cfi_endproc
  .size stack_reload_call, . - stack_reload_call
)");
