// SPDX-License-Identifier: Apache-2.0
#include "device/schedule.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>

#include "device/background.h"
#include "device/clock.h"
#include "device/graph.h"
#include "device/settings.h"
#include "device/timeline.h"

namespace simgpu {
namespace {

// A host function takes this long on a virtual clock.
constexpr int64_t kVirtualHostFunctionNs = 1'000;

struct Scheduler {
  std::list<Work> blocked;    // in order of queueing; an entry waits for completions
  std::list<Work> host_work;  // host functions with a start
  std::condition_variable resolved;
  std::condition_variable host_work_arrived;
  bool dispatcher_runs = false;
};

// Leaked: the destructor of a condition variable with a waiting thread would hang at exit.
Scheduler& scheduler() {
  static auto* value = new Scheduler;
  return *value;
}

uint32_t thread_id() {
  ThreadState& state = thread_state();
  if (state.thread_id != 0) return state.thread_id;
  // On a virtual clock two runs write the same file, so threads are counted there.
  static std::atomic<uint32_t> next{1};
  state.thread_id = settings().virtual_clock ? next++ : static_cast<uint32_t>(syscall(SYS_gettid));
  return state.thread_id;
}

void absorb(const Mark& mark, Work* work) {
  work->earliest_ns = std::max(work->earliest_ns, mark.end_ns());
  if (!mark.resolved()) work->pending.push_back(mark.pending);
}

void simplify(Mark* mark) {
  if (mark->pending && mark->pending->resolved) {
    mark->time_ns = mark->end_ns();
    mark->pending.reset();
  }
}

void finish(Work* work, int64_t start_ns, int64_t end_ns) {
  Operation& operation = work->operation;
  Context* context = work->stream->context;
  operation.start_ns = start_ns;
  operation.end_ns = end_ns;
  if (!work->stream->legacy && work->stream->blocking) {
    context->blocking_end_ns = std::max(context->blocking_end_ns, end_ns);
  }
  context->all_end_ns = std::max(context->all_end_ns, end_ns);
  if (work->span) {
    if (operation.kind == OperationKind::graph_launch) {
      operation.start_ns = std::min(work->span->start_ns, end_ns);
    } else {
      work->span->start_ns = std::min(work->span->start_ns, start_ns);
      work->span->end_ns = std::max(work->span->end_ns, end_ns);
    }
  }
  if (operation.kind < OperationKind::event_record) {
    write_timeline(operation);
    if (const Tool* tool = hub.tool.load(std::memory_order_acquire)) tool->operation(operation);
  }
  if (work->done) {
    work->done->end_ns = end_ns;
    work->done->resolved = true;
  }
}

// Gives work whose predecessors all have an end its own; a host function goes to the dispatcher.
void start_work(Work* work) {
  int64_t start = work->earliest_ns;
  if (work->host_function) {
    Scheduler& state = scheduler();
    state.host_work.push_back(std::move(*work));
    state.host_work_arrived.notify_one();
    return;
  }
  if (work->engine >= 0) {
    int64_t& engine_free = work->stream->context->device->engine_free_ns[work->engine];
    start = std::max(start, engine_free);
    engine_free = start + work->duration_ns;
  }
  finish(work, start, start + work->duration_ns);
}

void start_unblocked_work() {
  Scheduler& state = scheduler();
  for (auto work = state.blocked.begin(); work != state.blocked.end();) {
    bool ready = true;
    for (const CompletionPtr& completion : work->pending) {
      ready = ready && completion->resolved;
      work->earliest_ns = std::max(work->earliest_ns, completion->end_ns);
    }
    if (ready) {
      run_transfer(work->transfer);
      start_work(&*work);
      work = state.blocked.erase(work);
    } else {
      ++work;
    }
  }
  state.resolved.notify_all();
}

void dispatch() {
  Scheduler& state = scheduler();
  DeviceLock lock(device_lock());
  while (true) {
    if (state.host_work.empty()) {
      state.host_work_arrived.wait(lock);
      continue;
    }
    auto next = std::min_element(
        state.host_work.begin(), state.host_work.end(),
        [](const Work& a, const Work& b) { return a.earliest_ns < b.earliest_ns; });
    bool is_virtual = settings().virtual_clock;
    if (!is_virtual && now_ns() < next->earliest_ns) {
      // Sleeping with the lock free lets an earlier function overtake.
      auto until =
          std::chrono::steady_clock::time_point(std::chrono::nanoseconds(next->earliest_ns));
      state.host_work_arrived.wait_until(lock, until);
      continue;
    }
    Work work = std::move(*next);
    state.host_work.erase(next);
    lock.unlock();
    work.host_function(work.host_argument);
    lock.lock();
    int64_t end = is_virtual ? work.earliest_ns + kVirtualHostFunctionNs
                             : std::max(now_ns(), work.earliest_ns);
    finish(&work, work.earliest_ns, end);
    start_unblocked_work();
  }
}

void report_wait(WaitKind kind, Context* context, const Stream* stream, const Event* event,
                 int64_t start_ns) {
  const Tool* tool = hub.tool.load(std::memory_order_acquire);
  if (tool == nullptr && settings().timeline_file.empty()) return;
  HostWait wait = {kind,
                   static_cast<uint32_t>(context->device->ordinal),
                   context->id,
                   stream ? stream->id : UINT32_MAX,
                   event ? event->id : UINT32_MAX,
                   event ? event->sequence : 0,
                   thread_state().call_depth ? thread_state().correlation : 0,
                   start_ns,
                   now_ns(),
                   thread_id(),
                   reinterpret_cast<CUctx_st*>(context),
                   reinterpret_cast<CUstream_st*>(const_cast<Stream*>(stream))};
  {
    DeviceLock lock(device_lock());
    write_timeline(wait);
  }
  // The tool may call its client, so no lock is held.
  if (tool && kind != WaitKind::queue_full) tool->host_wait(wait);
}

void wait_for_mark(DeviceLock* lock, const Mark& mark) {
  wait_resolved(lock, mark);
  int64_t end = mark.end_ns();
  lock->unlock();
  wait_until(end);
}

// What a wait for the stream waits for; the legacy stream stands for all blocking ones.
Mark full_mark(Stream* stream) {
  if (!stream->legacy) return stream->tail;
  Work probe;
  predecessors(stream, &probe);
  Mark mark{std::max(probe.earliest_ns, int64_t{0}), nullptr};
  if (probe.pending.empty()) return mark;
  // Several open ends: an empty piece of work stands for all of them.
  probe.stream = stream;
  probe.operation.kind = OperationKind::barrier;
  probe.done = std::make_shared<Completion>();
  mark.pending = probe.done;
  scheduler().blocked.push_back(std::move(probe));
  return mark;
}

bool has_open_predecessors(Stream* stream) {
  Work probe;
  predecessors(stream, &probe);
  return !probe.pending.empty();
}

void wait_for_room(Stream* stream, DeviceLock* lock) {
  size_t depth = settings().queue_depth;
  if (stream->ring.size() < depth) stream->ring.resize(depth);
  int64_t oldest = stream->ring[stream->ring_at];
  if (oldest > now_ns()) {
    int64_t start = now_ns();
    lock->unlock();
    wait_until(oldest);
    report_wait(WaitKind::queue_full, stream->context, stream, nullptr, start);
    lock->lock();
  }
}

}  // namespace

void run_transfer(const Transfer& t) {
  if (t.type == Transfer::Type::none || !settings().move_data) return;
  for (size_t z = 0; z < t.depth; ++z) {
    for (size_t y = 0; y < t.height; ++y) {
      unsigned char* to = t.destination + z * t.destination_slice + y * t.destination_pitch;
      if (t.type == Transfer::Type::copy) {
        std::memmove(to, t.source + z * t.source_slice + y * t.source_pitch, t.width_bytes);
      } else if (t.element_bytes == 1) {
        std::memset(to, static_cast<int>(t.value), t.width_bytes);
      } else {
        for (size_t x = 0; x + t.element_bytes <= t.width_bytes; x += t.element_bytes) {
          std::memcpy(to + x, &t.value, t.element_bytes);
        }
      }
    }
  }
}

void predecessors(Stream* stream, Work* work) {
  Context* context = stream->context;
  simplify(&stream->tail);
  absorb(stream->tail, work);
  if (stream->legacy) {
    work->earliest_ns = std::max(work->earliest_ns, context->blocking_end_ns);
    for (Stream* other : context->streams) {
      if (other->blocking && !other->tail.resolved()) work->pending.push_back(other->tail.pending);
    }
  } else if (stream->blocking) {
    simplify(&context->legacy_stream->tail);
    absorb(context->legacy_stream->tail, work);
  }
}

Mark schedule_work(Stream* stream, Work&& work) {
  work.stream = stream;
  Operation& operation = work.operation;
  operation.device = static_cast<uint32_t>(stream->context->device->ordinal);
  operation.context = stream->context->id;
  operation.stream = stream->id;
  if (operation.peer_device == UINT32_MAX) operation.peer_device = operation.device;
  if (operation.thread_id == 0) operation.thread_id = thread_id();
  if (thread_state().call_depth) operation.correlation = thread_state().correlation;
  Scheduler& state = scheduler();
  if (work.host_function && !state.dispatcher_runs) {
    state.dispatcher_runs = true;
    start_background_thread("simgpu-host", dispatch);
  }
  if (work.pending.empty() && !work.host_function) {
    start_work(&work);
    return Mark{operation.end_ns, nullptr};
  }
  work.done = std::make_shared<Completion>();
  Mark mark{work.earliest_ns, work.done};
  if (work.pending.empty()) {
    start_work(&work);
  } else {
    state.blocked.push_back(std::move(work));
  }
  return mark;
}

Mark schedule(Stream* stream, Work&& work) {
  int64_t now = now_ns();
  work.operation.enqueue_ns = now;
  work.earliest_ns = now + settings().launch_latency_ns;
  predecessors(stream, &work);
  stream->tail = schedule_work(stream, std::move(work));
  return stream->tail;
}

Mark schedule_after(Stream* stream, const std::vector<Mark>& marks, int64_t gap_ns, Work&& work) {
  for (const Mark& mark : marks) {
    absorb(mark, &work);
    work.earliest_ns = std::max(work.earliest_ns, mark.end_ns() + gap_ns);
  }
  return schedule_work(stream, std::move(work));
}

CUresult submit(Stream* stream, Work&& work, Mark* mark) {
  DeviceLock lock(device_lock());
  if (stream->capture) return capture_work(stream, std::move(work));
  if (CUresult refused = refuse_legacy_in_capture(stream)) return refused;
  wait_for_room(stream, &lock);
  if (work.transfer.type != Transfer::Type::none && !has_open_predecessors(stream)) {
    // The data moves now, and before the clock is read: the host may take longer for it than the
    // simulated device, and would else return after the copy's end.
    lock.unlock();
    run_transfer(work.transfer);
    work.transfer.type = Transfer::Type::none;
    lock.lock();
  }
  Transfer transfer = work.transfer;
  bool is_host_function = work.host_function != nullptr;
  Mark end = schedule(stream, std::move(work));
  stream->ring[stream->ring_at] = end.end_ns();
  stream->ring_at = (stream->ring_at + 1) % stream->ring.size();
  if (mark) *mark = end;
  if (end.resolved()) {
    run_transfer(transfer);  // nothing left to move, unless the queue has just emptied
  } else if (is_host_function && settings().virtual_clock) {
    // The order of host functions and calls is then the same in each run.
    wait_resolved(&lock, end);
  }
  return CUDA_SUCCESS;
}

void synchronize_stream(Stream* stream) {
  int64_t start = now_ns();
  DeviceLock lock(device_lock());
  wait_for_mark(&lock, full_mark(stream));
  report_wait(WaitKind::stream, stream->context, stream, nullptr, start);
}

void synchronize_event(Event* event) {
  int64_t start = now_ns();
  DeviceLock lock(device_lock());
  Mark mark = event->mark;
  const Stream* stream = event->stream;
  wait_for_mark(&lock, mark);
  report_wait(WaitKind::event, event->context, stream, event, start);
}

void synchronize_context(Context* context, WaitKind kind, bool report) {
  int64_t start = now_ns();
  DeviceLock lock(device_lock());
  auto is_open = [context] {
    auto open = [](Stream* stream) { return !stream->tail.resolved(); };
    return open(context->legacy_stream) ||
           std::any_of(context->streams.begin(), context->streams.end(), open);
  };
  while (is_open()) scheduler().resolved.wait(lock);
  int64_t end = context->all_end_ns;
  lock.unlock();
  wait_until(end);
  if (report) report_wait(kind, context, nullptr, nullptr, start);
}

void wait_for_copy(Stream* stream, const Mark& mark) {
  int64_t start = now_ns();
  DeviceLock lock(device_lock());
  wait_for_mark(&lock, mark);
  report_wait(WaitKind::copy, stream->context, stream, nullptr, start);
}

void wait_resolved(DeviceLock* lock, const Mark& mark) {
  while (!mark.resolved()) scheduler().resolved.wait(*lock);
}

bool is_reached(const Mark& mark) {
  DeviceLock lock(device_lock());
  return mark.resolved() && mark.end_ns() <= now_ns();
}

bool is_idle(Stream* stream) {
  DeviceLock lock(device_lock());
  Work probe;
  if (stream->legacy) {
    predecessors(stream, &probe);
  } else {
    absorb(stream->tail, &probe);
  }
  return probe.pending.empty() && probe.earliest_ns <= now_ns();
}

CUresult record_event(Event* event, Stream* stream) {
  DeviceLock lock(device_lock());
  static uint64_t sequence = 0;
  if (stream->capture) return capture_event_record(event, stream);
  if (CUresult refused = refuse_legacy_in_capture(stream)) return refused;
  Work work;
  work.operation.kind = OperationKind::event_record;
  event->mark = schedule(stream, std::move(work));
  event->capture = nullptr;
  event->recorded = true;
  event->stream = stream;
  event->sequence = ++sequence;
  return CUDA_SUCCESS;
}

CUresult wait_event(Event* event, Stream* stream) {
  DeviceLock lock(device_lock());
  if (stream->capture || event->capture) return capture_event_wait(event, stream);
  if (!event->recorded) return CUDA_SUCCESS;
  simplify(&stream->tail);
  if (stream->tail.resolved() && event->mark.resolved()) {
    int64_t end = std::max(stream->tail.time_ns, event->mark.end_ns());
    stream->tail.time_ns = end;
    Context* context = stream->context;  // the event may belong to another device
    context->all_end_ns = std::max(context->all_end_ns, end);
    if (stream->blocking) context->blocking_end_ns = std::max(context->blocking_end_ns, end);
  } else {
    Work work;
    work.operation.kind = OperationKind::event_wait;
    absorb(stream->tail, &work);
    absorb(event->mark, &work);
    stream->tail = schedule_work(stream, std::move(work));
  }
  lock.unlock();
  const Tool* tool = hub.tool.load(std::memory_order_acquire);
  if (tool) {
    report_wait(WaitKind::stream_wait_event, stream->context, stream, event, now_ns());
  }
  return CUDA_SUCCESS;
}

}  // namespace simgpu
