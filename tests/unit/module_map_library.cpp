// SPDX-License-Identifier: Apache-2.0
//
// A library for module_map_test to load and unload. Its first note has the type of a build id and
// another owner, as SystemTap's probes have.
__asm__(
    ".pushsection .note.aaa,\"a\",%note\n"
    ".balign 4\n"
    ".long 8, 4, 3\n"
    ".asciz \"stapsdt\"\n"
    ".long 0x77777777\n"
    ".popsection\n");

extern "C" int module_map_marker();
extern "C" int module_map_marker() { return 1; }
