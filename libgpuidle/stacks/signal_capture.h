// SPDX-License-Identifier: Apache-2.0
//
// The stack of a thread that runs: it takes it itself, in the handler of one signal. SIGURG, since
// by default nobody notices a stray one; left alone where the program has a handler for it. One
// request at a time, in memory that is never freed: a thread may come to its signal late.
#pragma once

#include <signal.h>

#include <cstdint>

namespace gpuidle::stacks {

/// Context: sampler; one user at a time.
class SignalCapture {
 public:
  static constexpr int kSignal = SIGURG;

  enum class Answer : std::uint8_t {
    taken,
    not_in_time,  ///< blocked by the thread, or it did not get a processor
    gone,         ///< the thread has ended
    refused,      ///< the program uses the signal: refusal() says so; nothing was sent
  };

  /// Asks thread `tid` of this process for its stack and waits for `timeout_ns` at most. The words
  /// (stack_word.h) stay valid until the next request; `*count` may be 0.
  Answer take(int tid, int max_words, std::int64_t timeout_ns, const std::uint64_t** words,
              int* count, bool* is_cut);

  /// "" or why running threads are not looked at. It stays so.
  const char* refusal() const { return refusal_; }

  /// Gives the signal back if it is still ours. Context: sampler, at its end.
  void leave();

 private:
  bool own_signal();

  const char* refusal_ = "";
  bool is_installed_ = false;
};

}  // namespace gpuidle::stacks
