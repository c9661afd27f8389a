// SPDX-License-Identifier: Apache-2.0
//
// What libstack_probe.so has of CallStack, in C.
#pragma once

#define STACK_PROBE_DOOR __attribute__((visibility("default")))

extern "C" {
STACK_PROBE_DOOR int stack_probe_prepare();
/// Returns the number of frames, up to 128.
STACK_PROBE_DOOR int stack_probe_capture(void** addresses, unsigned long* frame_addresses,
                                         int max_frames, int* is_truncated);
STACK_PROBE_DOOR int stack_probe_capture_interrupted(const void* context, void** addresses,
                                                     int max_frames);
/// Takes the caller's stack and compares it with libgcc's. Returns its frames; 0: they differ.
STACK_PROBE_DOOR int stack_probe_agrees();
STACK_PROBE_DOOR void stack_probe_refresh();
STACK_PROBE_DOOR unsigned long stack_probe_stopped_without_table();
STACK_PROBE_DOOR unsigned long stack_probe_cut();
}
