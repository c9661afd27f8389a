// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/session/host_drain.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "libgpuidle/model/cuda_api.h"
#include "libgpuidle/record/sample_record.h"
#include "libgpuidle/session/process_info.h"
#include "libgpuidle/stacks/call_stack.h"
#include "libgpuidle/stacks/python_frames.h"
#include "libgpuidle/stacks/stack_word.h"

namespace gpuidle::session {
namespace {

template <typename Record>
Record as(const record::Slot& slot) {
  Record record;
  std::memcpy(static_cast<void*>(&record), &slot, sizeof(record));
  return record;
}

}  // namespace

HostDrain::HostDrain(record::HostCallRecorder& recorder, model::Tables& tables)
    : recorder_(recorder), tables_(tables), losses_before_(total_losses()) {}

void HostDrain::sample_clock() {
  // The tightest bracket of a few tries: a descheduling in between shows as a wide one.
  timeline::TickPair best;
  std::int64_t best_width = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 4; ++i) {
    const std::int64_t before = record::host_ticks();
    const std::int64_t now_ns = record::host_now_ns();
    const std::int64_t after = record::host_ticks();
    if (after - before < best_width) {
      best_width = after - before;
      best = {before + best_width / 2, now_ns};
    }
  }
  clock_.add(best);
}

std::size_t HostDrain::drain(model::Slice& slice) {
  // Stamps that are read below lie, but for the last moments, between the previous pair and this.
  sample_clock();
  stacks::CallStack::refresh();
  std::size_t moved = 0;
  for (int i = 0; i < record::kMaxThreads; ++i) {
    record::ThreadState* state = recorder_.thread(i);
    if (state == nullptr) break;
    if (state->state.load(std::memory_order_acquire) != record::ThreadState::live) continue;
    moved += drain_thread(*state, known_[static_cast<std::size_t>(i)], slice);
  }
  return moved;
}

std::size_t HostDrain::drain_thread(record::ThreadState& state, Known& known, model::Slice& slice) {
  const std::size_t count = state.ring.readable();
  if (count == 0) return 0;
  if (known.tid != state.tid) {
    known.tid = state.tid;
    known.thread = tables_.intern_thread(static_cast<std::uint32_t>(getpid()), state.tid,
                                         thread_name(state.tid));
  }
  slots_.resize(count);
  state.ring.peek(0, count, slots_.data());
  std::size_t records = 0;
  for (std::size_t at = 0; at < count; ++records) {
    const record::Slot& slot = slots_[at];
    const auto head = as<record::RecordHead>(slot);
    switch (head.kind) {
      case record::RecordKind::call:
        add_call(slot, known, slice);
        break;
      case record::RecordKind::stack:
        known.stacks[head.value % record::kStackCacheSize] =
            stack_of(reinterpret_cast<const char*>(&slots_[at] + 1), head.stack);
        break;
      case record::RecordKind::marker: {
        const auto raw = as<record::MarkerRecord>(slot);
        model::Marker marker;
        marker.start_ns = raw.start_ns;
        marker.end_ns = raw.end_ns;
        marker.kind = static_cast<model::Marker::Kind>(head.value);
        marker.thread = known.thread;
        marker.name = tables_.intern(
            {reinterpret_cast<const char*>(&slots_[at] + 1), static_cast<std::size_t>(head.stack)});
        slice.markers.push_back(marker);
        break;
      }
      case record::RecordKind::sample:  // only in the sampler's own ring
      case record::RecordKind::none:
        break;
    }
    at += std::max<std::size_t>(head.slots, 1);
  }
  state.ring.release(count);
  return records;
}

model::ApiId HostDrain::api_of(std::uint16_t row) {
  if (api_of_row_.empty()) api_of_row_.resize(std::size(model::kCudaApis), 0);
  model::ApiId& id = api_of_row_[row];
  if (id == 0) id = tables_.intern_api(model::kCudaApis[row].name, model::kCudaApis[row].role);
  return id;
}

void HostDrain::add_call(const record::Slot& slot, const Known& known, model::Slice& slice) {
  const auto raw = as<record::CallRecord>(slot);
  model::ApiCall call;
  call.enter_ns = clock_.to_host(raw.enter_ticks);
  call.exit_ns = clock_.to_host(raw.exit_ticks);
  call.correlation = raw.correlation;
  call.result = raw.result;
  call.thread = known.thread;
  call.api = api_of(raw.head.value);
  call.role = model::kCudaApis[raw.head.value].role;
  if (raw.head.stack != 0) call.stack = known.stacks[raw.head.stack - 1];
  slice.calls.push_back(call);
  if (model::enqueues_work(call.role)) ++enqueued_;
  if (call.role == model::ApiRole::launch || call.role == model::ApiRole::graph_launch) {
    ++launches_;
  }
}

model::FrameId HostDrain::frame_of(std::uint64_t word) {
  if (!stacks::is_python_word(word)) return modules_.frame_of(word, tables_);
  model::Frame frame;
  frame.kind = model::Frame::Kind::python;
  const std::uint32_t code_id = stacks::code_id_of(word);
  const stacks::PythonCodeTable& codes = stacks::PythonFrames::code_table();
  stacks::PythonCode code;
  if (codes.describe(code_id, &code)) {
    frame.function = tables_.intern(code.name);
    frame.file = tables_.intern(code.file);
    frame.line = codes.line_of(code_id, stacks::position_of(word));
  }
  return tables_.intern(frame);
}

model::StackId HostDrain::stack_of(const char* words, std::size_t word_count) {
  modules_.refresh();
  frames_.clear();
  for (std::size_t i = 0; i < word_count; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, words + i * sizeof(word), sizeof(word));
    frames_.push_back(frame_of(word));
  }
  return tables_.intern_stack(frames_.data(), frames_.size());
}

void HostDrain::add_sample(const record::Slot* slots, model::Slice& slice) {
  const auto raw = as<record::SampleRecord>(*slots);
  const auto* const payload = reinterpret_cast<const char*>(slots + 1);
  record::SampleFacts facts;
  std::memcpy(static_cast<void*>(&facts), payload, sizeof(facts));
  model::ThreadSample sample;
  sample.start_ns = clock_.to_host(raw.start_ticks);
  sample.end_ns = std::max(sample.start_ns, clock_.to_host(raw.end_ticks));
  sample.cpu_ns = facts.cpu_ns;
  sample.run_queue_wait_ns = facts.run_queue_wait_ns;
  sample.throttled_ns = facts.throttled_ns;
  sample.major_faults = facts.major_faults;
  sample.system_call = facts.system_call;
  sample.activity = facts.activity;
  sample.target = facts.target;
  sample.is_child_process = facts.is_child_process;
  sample.has_counts = facts.has_counts;
  sample.thread = tables_.intern_thread(raw.pid, raw.tid, facts.name);
  if (raw.head.stack != 0) sample.stack = stack_of(payload + sizeof(facts), raw.head.stack);
  slice.samples.push_back(sample);
}

std::size_t HostDrain::drain_samples(record::ThreadRing& ring, model::Slice& slice) {
  const std::size_t count = ring.readable();
  if (count == 0) return 0;
  slots_.resize(count);
  ring.peek(0, count, slots_.data());
  const std::size_t before = slice.samples.size();
  for (std::size_t at = 0; at < count;) {
    const auto head = as<record::RecordHead>(slots_[at]);
    if (head.kind == record::RecordKind::sample) add_sample(&slots_[at], slice);
    at += std::max<std::size_t>(head.slots, 1);
  }
  ring.release(count);
  return slice.samples.size() - before;
}

model::Losses HostDrain::total_losses() {
  model::Losses losses;
  std::uint64_t dropped = recorder_.unregistered_calls();
  std::uint64_t truncated = 0;
  std::uint64_t failed = 0;
  for (int i = 0; i < record::kMaxThreads; ++i) {
    record::ThreadState* state = recorder_.thread(i);
    if (state == nullptr) break;
    dropped += state->ring.dropped();
    truncated += state->stacks_truncated.load(std::memory_order_relaxed);
    failed += state->stacks_failed.load(std::memory_order_relaxed);
  }
  losses.count[static_cast<std::size_t>(model::LossReason::ring_full)] = dropped;
  losses.count[static_cast<std::size_t>(model::LossReason::stack_truncated)] = truncated;
  losses.count[static_cast<std::size_t>(model::LossReason::stack_unavailable)] = failed;
  return losses;
}

void HostDrain::count_losses(model::Losses& losses) {
  const model::Losses now = total_losses();
  for (std::size_t i = 0; i < now.count.size(); ++i) {
    if (now.count[i] != 0) losses.count[i] = now.count[i] - losses_before_.count[i];
  }
}

}  // namespace gpuidle::session
