// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/stack_merge.h"

namespace gpuidle::stacks {
namespace {

class Merge {
 public:
  Merge(const PythonFrame* python, int count, std::uint64_t* words, int max_words)
      : next_(python), end_(python + count), words_(words), max_words_(max_words) {}

  bool is_full() const { return count_ == max_words_; }
  bool is_cut() const { return is_cut_; }
  int count() const { return count_; }
  int left() const { return static_cast<int>(end_ - next_); }
  bool has_frames_without_anchor() const { return next_ != end_ && next_->anchor == 0; }
  bool has_frames_below(std::uintptr_t address) const {
    return next_ != end_ && next_->anchor != 0 && next_->anchor < address;
  }

  void put(std::uint64_t word) {
    if (is_full()) {
      is_cut_ = true;
    } else {
      words_[count_++] = word;
    }
  }
  // All frames that one call of the evaluation loop runs.
  void put_call() {
    for (bool is_last = false; next_ != end_ && !is_last; ++next_) {
      is_last = next_->is_entry;
      if (next_->word != 0) put(next_->word);
    }
  }

 private:
  const PythonFrame* next_;
  const PythonFrame* end_;
  std::uint64_t* words_;
  int max_words_;
  int count_ = 0;
  bool is_cut_ = false;
};

}  // namespace

MergeResult merge_stacks(const NativeFrame* native, int native_count, const PythonFrame* python,
                         int python_count, EvaluationLoop loop, std::uint64_t* words,
                         int max_words) {
  Merge merge(python, python_count, words, max_words);
  std::uintptr_t frame_begin = 0;
  int i = 0;
  for (; i < native_count && !merge.is_full(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(native[i].return_address);
    const std::uintptr_t frame_end = native[i].frame_address;
    bool gives_way = false;
    if (frame_end != 0) {
      // A frame reaches from the end of the one that it called to its own.
      while (merge.has_frames_below(frame_begin)) merge.put_call();
      while (merge.has_frames_below(frame_end)) {
        merge.put_call();
        gives_way = true;
      }
      frame_begin = frame_end;
    }
    // Behind a call the address may be that of the next function.
    if (!gives_way && (frame_end == 0 || merge.has_frames_without_anchor()) && merge.left() > 0 &&
        address > loop.begin && address <= loop.end) {
      merge.put_call();
      gives_way = true;
    }
    if (!gives_way) merge.put(address);
  }
  MergeResult result;
  result.misplaced = merge.is_full() ? 0 : merge.left();
  while (merge.left() > 0) merge.put_call();
  result.count = merge.count();
  result.is_cut = merge.is_cut() || i < native_count;
  return result;
}

}  // namespace gpuidle::stacks
