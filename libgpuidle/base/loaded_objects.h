// SPDX-License-Identifier: Apache-2.0
//
// The list of loaded libraries, for our own threads. The C library guards it with a lock that
// fork() does not put right in the child (glibc 2.36; with a thread that asks in a loop, 108 of 300
// children hung at their first dlopen or look at the list): while a thread of ours is in there, a
// fork has to wait a moment.
#pragma once

#include <cstddef>

struct dl_phdr_info;

namespace gpuidle::base {

/// dl_iterate_phdr(), never under way in a thread of ours when the process forks.
/// Context: control, drain.
int for_each_loaded_object(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument);

/// For pthread_atfork(): keeps our threads out of the list while the process forks. Waits for one
/// that is inside, 100 ms at most: a program may fork from where that one waits for it.
void hold_loaded_objects_before_fork();
void free_loaded_objects_after_fork();  ///< in the parent and in the child

}  // namespace gpuidle::base
