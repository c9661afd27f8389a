// SPDX-License-Identifier: Apache-2.0
//
// The whole stack of a host thread as the recorder keeps it: native frames with the Python frames
// in their places. What a hook calls where a gap closes; the drain thread reads the words.
#pragma once

#include <cstdint>

namespace gpuidle::stacks {

/// Writes up to `max_words` words (stack_word.h) of the calling thread, innermost first, without
/// the frames of this library, and returns their number; 0 = no stack could be taken.
/// `*is_truncated`: the stack goes on beyond the words given. After CallStack::prepare() and
/// PythonFrames::prepare(). Context: hook.
int capture_host_stack(std::uint64_t* words, int max_words, bool* is_truncated);

}  // namespace gpuidle::stacks
