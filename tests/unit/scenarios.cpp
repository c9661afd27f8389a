// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scenarios.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

namespace gpuidle::tests {
namespace {

using analysis::Cause;
using model::ApiRole;
using model::CopyKind;
using model::MemoryKind;
using Recording = LedgerRecording;

constexpr std::uint64_t kMiB = 1 << 20;

// --- S1, S2: the next batch is not there ---------------------------------------------------------

// Ten steps of 8 ms of the loader, a copy and a kernel of 2 ms; samples of the thread every 1 ms.
void loader_steps(Recording* r, model::StackId sampled, model::ThreadActivity activity,
                  model::WaitTarget target) {
  const auto feed = r->stack({{"train", "train.py", 30}});
  for (int step = 0; step < 10; ++step) {
    const double h = 8.03 * step;
    for (int i = 0; i < 8; ++i) {
      r->sample(ms(h + i), ms(h + i + 1), sampled, activity, target);
    }
    const auto copy = r->copy_call(ms(h + 8.00), ms(h + 8.01), feed);
    const auto launch = r->launch(ms(h + 8.01), ms(h + 8.02), feed);
    r->copy(ms(h + 8.02), ms(h + 8.12), copy, CopyKind::host_to_device, kMiB, MemoryKind::pinned);
    r->kernel(ms(h + 8.12), ms(h + 10.12), launch);
  }
}

void inline_preprocessing(Recording* r) {
  loader_steps(r, inline_loader_stack(r), model::ThreadActivity::running,
               model::WaitTarget::unknown);
}

void workers_are_busy(Recording* r) {
  for (int i = 0; i < 80; ++i) {
    r->child_sample(ms(i), ms(i + 1), model::ThreadActivity::running, model::WaitTarget::unknown);
  }
  loader_steps(r, worker_loader_stack(r), model::ThreadActivity::waiting, model::WaitTarget::pipe);
}

void workers_read_remotely(Recording* r) {
  for (int i = 0; i < 80; ++i) {
    r->child_sample(ms(i), ms(i + 1), model::ThreadActivity::waiting,
                    model::WaitTarget::network_file);
  }
  loader_steps(r, worker_loader_stack(r), model::ThreadActivity::waiting, model::WaitTarget::pipe);
}

// The same wait as the PyTorch profiler shows it: a named range, no samples.
void loader_range(Recording* r) {
  for (int step = 0; step < 10; ++step) {
    const double h = 8.03 * step;
    r->range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", ms(h), ms(h + 8));
    const auto launch = r->launch(ms(h + 8.01), ms(h + 8.02));
    r->kernel(ms(h + 8.03), ms(h + 10.03), launch);
  }
}

// --- S3: one value is read back ------------------------------------------------------------------

void read_back(Recording* r, double kernel_ms, int steps, int every) {
  const auto read = r->stack({{"item", "torch/_tensor.py", 9}, {"train", "train.py", 42}});
  const auto feed = r->stack({{"train", "train.py", 40}});
  double h = 0;
  for (int step = 0; step < steps; ++step) {
    const double done = h + 0.04 + kernel_ms;
    const auto launch = r->launch(ms(h + 0.02), ms(h + 0.03), feed);
    r->kernel(ms(h + 0.04), ms(done), launch);
    if (step % every != 0) {  // the host runs ahead: the next launch comes in time
      h = done - 0.04;
      continue;
    }
    const auto copy = r->copy_call(ms(h + 0.03), ms(h + 0.04), read);
    r->call("cudaStreamSynchronize", ApiRole::sync_blocking, ms(h + 0.04), ms(done + 0.02), read);
    r->copy(ms(done), ms(done + 0.01), copy, CopyKind::device_to_host, 4, MemoryKind::device);
    h = done + 1.0;
  }
}

void read_every_step(Recording* r) { read_back(r, 2.0, 60, 1); }
void read_after_short_kernels(Recording* r) { read_back(r, 0.05, 60, 1); }
void read_now_and_then(Recording* r) { read_back(r, 2.0, 300, 100); }

// --- S4: copies to the device --------------------------------------------------------------------

// Ten steps: a copy that takes `copy_ms`, then a kernel of 5 ms behind it.
void pageable_copies(Recording* r) {
  const auto feed = r->stack({{"train", "train.py", 20}});
  double device = 0.1;
  for (int step = 0; step < 10; ++step) {
    const double enter = step == 0 ? 0 : device - 4.9;
    const auto copy = r->copy_call(ms(enter), ms(device + 9.9), feed);
    r->copy(ms(device), ms(device + 9.9), copy, CopyKind::host_to_device, 64 * kMiB,
            MemoryKind::pageable);
    const auto launch = r->launch(ms(device + 9.9), ms(device + 9.91), feed);
    r->kernel(ms(device + 10), ms(device + 15), launch);
    device += 15;
  }
}

void pinned_copies_in_line(Recording* r) {
  const auto feed = r->stack({{"train", "train.py", 20}});
  for (int step = 0; step < 60; ++step) {
    const double h = 7.6 * step;
    const auto copy = r->copy_call(ms(h - 3), ms(h - 2.99), feed);
    const auto launch = r->launch(ms(h - 2.98), ms(h - 2.97), feed);
    r->copy(ms(h), ms(h + 2.6), copy, CopyKind::host_to_device, 64 * kMiB, MemoryKind::pinned);
    r->kernel(ms(h + 2.6), ms(h + 7.6), launch);
  }
}

void copies_beside_kernels(Recording* r) {
  for (int step = 0; step < 60; ++step) {
    const double h = 5.0 * step;
    const auto launch = r->launch(ms(h - 3), ms(h - 2.99));
    const auto copy = r->copy_call(ms(h - 2.98), ms(h - 2.97));
    r->kernel(ms(h), ms(h + 5), launch);
    r->copy(ms(h + 1), ms(h + 3.6), copy, CopyKind::host_to_device, 64 * kMiB, MemoryKind::pinned);
  }
}

void small_pageable_copies(Recording* r) {
  for (int step = 0; step < 60; ++step) {
    const double h = 5.01 * step;
    const auto copy = r->copy_call(ms(h - 3), ms(h - 2.99));
    const auto launch = r->launch(ms(h - 2.98), ms(h - 2.97));
    r->copy(ms(h), ms(h + 0.01), copy, CopyKind::host_to_device, 4096, MemoryKind::pageable);
    r->kernel(ms(h + 0.01), ms(h + 5.01), launch);
  }
}

// --- S5: a checkpoint ----------------------------------------------------------------------------

void busy(Recording* r, double from_ms, double to_ms) {
  for (double h = from_ms; h + 0.5 < to_ms; h += 1) {
    r->kernel(ms(h), ms(std::min(h + 1, to_ms)), r->launch(ms(h - 1.5), ms(h - 1.49)));
  }
}

void checkpoint(Recording* r) {
  busy(r, 0, 100);
  const auto save = checkpoint_stack(r);
  for (int i = 0; i < 3; ++i) {
    const double h = 100 + 320 * i;
    const auto copy = r->call("cudaMemcpy", ApiRole::copy_blocking, ms(h - 0.1), ms(h + 20), save);
    r->copy(ms(h), ms(h + 20), copy, CopyKind::device_to_host, 200 * kMiB, MemoryKind::device);
    for (int t = 0; t < 30; ++t) {
      r->sample(ms(h + 20 + 10 * t), ms(h + 30 + 10 * t), save, model::ThreadActivity::waiting,
                model::WaitTarget::network_file);
    }
  }
  const auto again = r->launch(ms(1060), ms(1060.01));
  r->kernel(ms(1060), ms(1061), again);
  busy(r, 1061, 1160);
}

void checkpoint_in_background(Recording* r) {
  busy(r, 0, 500);
  const auto save = checkpoint_stack(r);
  r->thread = r->mutable_tables().intern_thread(1, 2, "writer");
  for (int t = 0; t < 30; ++t) {
    r->sample(ms(10 * t), ms(10 * t + 10), save, model::ThreadActivity::waiting,
              model::WaitTarget::network_file);
  }
  r->thread = 0;
}

void result_upload(Recording* r) {
  busy(r, 0, 100);
  const auto log =
      r->stack({{"send", "wandb/sdk/interface.py", 50}, {"log_images", "train.py", 77}});
  for (int i = 0; i < 3; ++i) {
    const double h = 100 + 320 * i;
    const auto copy = r->call("cudaMemcpy", ApiRole::copy_blocking, ms(h - 0.1), ms(h + 0.02), log);
    r->copy(ms(h), ms(h + 0.01), copy, CopyKind::device_to_host, 1024, MemoryKind::device);
    r->sample(ms(h + 1), ms(h + 310), log, model::ThreadActivity::waiting,
              model::WaitTarget::external_socket);
    busy(r, h + 310, h + 320);
  }
}

// --- S6: launches --------------------------------------------------------------------------------

void launch_bound(Recording* r) {
  const auto step = r->stack({{"forward", "model.py", 12}});
  for (int i = 0; i < 2000; ++i) {
    const double t = 10.0 * i;
    r->kernel(us(t + 6), us(t + 8), r->launch(us(t), us(t + 5), i % 50 == 0 ? step : 0));
  }
}

// A device of 10 GiB of which the allocator reserves `percent` at the peak.
void reserve(Recording* r, std::uint64_t percent) {
  model::Device device;
  device.memory_bytes = 10ULL << 30U;
  r->mutable_tables().set_device(device);
  model::MemoryEvent event;
  event.start_ns = us(1);
  event.has_totals = true;
  event.reserved_bytes = device.memory_bytes / 100 * percent;
  event.allocated_bytes = event.reserved_bytes / 2;
  event.bytes = static_cast<std::int64_t>(event.allocated_bytes);
  r->records.memory.push_back(event);
}

void small_batch(Recording* r) {
  launch_bound(r);
  reserve(r, 30);
}

void no_room_for_a_batch(Recording* r) {
  launch_bound(r);
  reserve(r, 85);
}

void neither_small_nor_capped(Recording* r) {
  launch_bound(r);
  reserve(r, 80);
}

// 16 ms of launching, and 30 ms of waits for the loader.
void small_batch_behind_loader(Recording* r) {
  const auto waits = worker_loader_stack(r);
  for (int i = 0; i < 2000; ++i) {
    const double t = 10.0 * i + 10'000.0 * (i / 500);
    if (i % 500 == 0 && i > 0) {
      r->sample(us(t - 10'000), us(t), waits, model::ThreadActivity::waiting,
                model::WaitTarget::pipe);
    }
    r->kernel(us(t + 6), us(t + 8), r->launch(us(t), us(t + 5)));
  }
  reserve(r, 30);
}

// Exactly half of the time idle, exactly half of the memory reserved.
void half_of_both(Recording* r) {
  for (int i = 0; i < 2000; ++i) {
    const double t = 10.0 * i + (i == 1999 ? 5 : 0);
    r->kernel(us(t + 5), us(t + 10), r->launch(us(t), us(t + 4)));
  }
  reserve(r, 50);
}

void queued_in_time(Recording* r) {
  for (int i = 0; i < 2000; ++i) {
    const auto call = r->launch(us(i * 0.5), us(i * 0.5 + 0.4));
    r->kernel(us(2000 + 3.0 * i), us(2002 + 3.0 * i), call);
  }
}

void graph_replays(Recording* r) {
  const auto step = r->stack({{"generate", "serve.py", 8}});
  for (int i = 0; i < 500; ++i) {
    const double t = 700.0 * i;
    const auto call = r->call("cudaGraphLaunch", ApiRole::graph_launch, us(t), us(t + 10), step);
    for (int k = 0; k < 10; ++k) r->kernel(us(t + 20 + 48 * k), us(t + 68 + 48 * k), call);
  }
}

void full_queue(Recording* r) {
  for (int i = 0; i < 300; ++i) {
    const double h = 1.0 * i;
    const bool is_stuck = i == 200;
    const double enter = is_stuck ? h - 60 : h - 100;
    r->kernel(ms(h), ms(h + 1), r->launch(ms(enter), ms(is_stuck ? enter + 40 : enter + 0.01)));
  }
}

// --- S7, S8: other streams, devices and ranks ----------------------------------------------------

void wait_for_other_device(Recording* r) {
  for (int i = 0; i < 20; ++i) {
    const double h = 6.0 * i;
    r->device = 0;
    r->kernel(ms(h + 0.02), ms(h + 1.02), r->launch(ms(h), ms(h + 0.01)));
    r->device = 1;
    r->kernel(ms(h + 0.05), ms(h + 5), r->launch(ms(h + 0.02), ms(h + 0.03)));
    r->kernel(ms(h + 5), ms(h + 6.04), r->launch(ms(h + 0.04), ms(h + 0.05)));
    r->call("cudaStreamWaitEvent", ApiRole::event_wait, ms(h + 0.07), ms(h + 0.071));
    r->device = 0;
    r->kernel(ms(h + 5.01), ms(h + 6.01), r->launch(ms(h + 0.08), ms(h + 0.09)));
  }
}

void collective_alone(Recording* r) {
  for (int i = 0; i < 10; ++i) {
    r->kernel(ms(i), ms(i + 1), r->launch(ms(i - 5), ms(i - 4.99)));
  }
  r->kernel(ms(10), ms(30), r->launch(ms(5.1), ms(5.11)),
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)");
}

// --- S9, S10: memory, and the job ----------------------------------------------------------------

void cache_flushes(Recording* r) {
  const auto allocate = r->stack({{"forward", "model.py", 31}});
  for (int step = 0; step < 60; ++step) {
    const double h = 40.0 * step;
    double next = h + 10;
    r->kernel(ms(h), ms(h + 10), r->launch(ms(h - 0.02), ms(h - 0.01)));
    if (step % 5 == 0) {
      r->call("cudaMalloc", ApiRole::alloc, ms(h + 9), ms(h + 9.1), allocate);
      r->records.calls.back().result = 2;
      for (int i = 0; i < 8; ++i) {
        const double from = i == 0 ? h + 9.2 : h + 8 + 2 * i;
        r->call("cudaFree", ApiRole::free, ms(from), ms(h + 10 + 2 * i), allocate);
      }
      r->call("cudaMalloc", ApiRole::alloc, ms(h + 24), ms(h + 26), allocate);
      next = h + 26.03;
    }
    r->kernel(ms(next), ms(h + 40), r->launch(ms(next - 0.02), ms(next - 0.01)));
  }
}

void late_start_and_linger(Recording* r) {
  model::RecordingInfo& info = r->mutable_info();
  info.process_start_ns = 0;
  info.recording_start_ns = ms(2500);
  info.recording_end_ns = ms(1'222'000);
  info.end = model::End::clean;
  r->mutable_tables().set_device({});
  model::Device unused;
  unused.ordinal = 1;
  r->mutable_tables().set_device(unused);
  busy(r, 109'000, 112'000);
}

void launches_block(Recording* r) {
  for (int i = 0; i < 200; ++i) {
    const double h = 1.05 * i;
    r->kernel(ms(h + 0.02), ms(h + 1.02), r->launch(ms(h), ms(h + 1.03)));
  }
}

void steady(Recording* r) {
  for (int i = 0; i < 400; ++i) {
    const double h = 1.005 * i;
    const auto call = r->launch(ms(h - 1.5), ms(h - 1.49));
    if (i % 100 == 99) {
      r->call("cudaDeviceSynchronize", ApiRole::sync_blocking, ms(h - 1.0), ms(h + 1.0));
    }
    r->kernel(ms(h), ms(h + 1.0), call);
  }
}

bool is_in(Cause cause, const std::vector<Cause>& causes) {
  return std::find(causes.begin(), causes.end(), cause) != causes.end();
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> kAll = {
      {"S1 preprocessing in the training thread", inline_preprocessing, {Cause::inline_preprocess}},
      {"S2a busy workers", workers_are_busy, {Cause::loader_wait}},
      {"S2b workers that read remotely", workers_read_remotely, {Cause::remote_read}},
      {"S2c a loader's range", loader_range, {Cause::loader_wait}},
      {"S3a a value read in every step", read_every_step, {Cause::scalar_read}},
      {"S3b the same with short kernels", read_after_short_kernels, {Cause::scalar_read}},
      {"S3c a value read every 100 steps", read_now_and_then, {}},
      {"S4a pageable copies", pageable_copies, {Cause::h2d_pageable}},
      {"S4b pinned copies in line", pinned_copies_in_line, {Cause::h2d_blocking}},
      {"S4c copies beside kernels", copies_beside_kernels, {}},
      {"S4d small pageable copies", small_pageable_copies, {}},
      {"S5a a checkpoint", checkpoint, {Cause::checkpoint_sync}},
      {"S5b a checkpoint in the background", checkpoint_in_background, {}},
      {"S5c results uploaded", result_upload, {Cause::result_upload}},
      {"S6a small launches", launch_bound, {Cause::launch_bound}},
      {"S6b launches queued in time", queued_in_time, {Cause::launch_latency}},
      {"S6c graph replays", graph_replays, {Cause::replay_gap}},
      {"S6d a full queue", full_queue, {}},
      {"S7 work behind another device", wait_for_other_device, {Cause::stream_wait}},
      {"S8 one rank's collective", collective_alone, {Cause::comm_exposed}},
      {"S9a small batches", small_batch, {Cause::launch_bound, Cause::small_batch}},
      {"S9b no room for a batch", no_room_for_a_batch, {Cause::launch_bound, Cause::memory_capped}},
      {"S9c small batches behind a loader", small_batch_behind_loader, {Cause::loader_wait}},
      {"S9e half of the time and of the memory",
       half_of_both,
       {Cause::launch_bound, Cause::small_batch}},
      {"S9f four fifths of the memory", neither_small_nor_capped, {Cause::launch_bound}},
      {"S9d cache flushes", cache_flushes, {Cause::alloc_churn}},
      {"S10a late start, linger, unused device",
       late_start_and_linger,
       {Cause::startup, Cause::linger, Cause::device_unused}},
      {"S10c blocking launches", launches_block, {Cause::launch_blocking}},
      {"S10d steadily busy", steady, {}},
  };
  return kAll;
}

model::StackId inline_loader_stack(LedgerRecording* recording) {
  return recording->stack(
      {{"__getitem__", "ds.py", 7},
       {"fetch", "torch/utils/data/_utils/fetch.py", 52},
       {"_SingleProcessDataLoaderIter._next_data", "torch/utils/data/dataloader.py", 600},
       {"train", "train.py", 28}});
}

model::StackId worker_loader_stack(LedgerRecording* recording) {
  return recording->stack(
      {{"Connection.poll", "multiprocessing/connection.py", 257},
       {"Queue.get", "multiprocessing/queues.py", 113},
       {"_MultiProcessingDataLoaderIter._try_get_data", "torch/utils/data/dataloader.py", 1120},
       {"train", "train.py", 28}});
}

model::StackId checkpoint_stack(LedgerRecording* recording) {
  return recording->stack({{"_save", "torch/serialization.py", 800},
                           {"save", "torch/serialization.py", 600},
                           {"save", "ckpt.py", 15}});
}

analysis::Findings causes_of(const LedgerRecording& recording, const analysis::Idleness& found) {
  analysis::DeviceMemoryMeter meter;
  REQUIRE(recording.visit(meter).ok());
  return analysis::find_causes(recording, found, {}, meter.finish(recording.tables()));
}

const analysis::Finding* Told::find(Cause cause) const {
  for (const analysis::Finding& finding : findings.told) {
    if (finding.cause == cause) return &finding;
  }
  return nullptr;
}

Told tell(LedgerRecording* recording, std::string_view name) {
  const auto scenario = std::find_if(
      scenarios().begin(), scenarios().end(),
      [name](const Scenario& row) { return row.name.substr(0, row.name.find(' ')) == name; });
  REQUIRE(scenario != scenarios().end());
  scenario->fill(recording);
  Told told;
  told.found = recording->analyze();
  std::int64_t grouped_ns = 0;
  for (const analysis::GapGroup& group : told.found.groups) grouped_ns += group.total_ns;
  CHECK(grouped_ns == told.found.idle_ns());
  for (const analysis::DeviceIdleness& device : told.found.devices) {
    const analysis::Ledger& ledger = device.ledger;
    CHECK(ledger.compute_ns + ledger.exposed_communication_ns + ledger.exposed_copy_ns +
              ledger.idle.total_ns() + ledger.not_observed_ns ==
          ledger.wall_ns());
  }
  told.findings = causes_of(*recording, told.found);
  for (const analysis::Finding& finding : told.findings.told) {
    INFO(name << " tells " << analysis::row_of(finding.cause).id);
    CHECK(is_in(finding.cause, scenario->told));
  }
  for (const Cause cause : scenario->told) {
    INFO(name << " must tell " << analysis::row_of(cause).id);
    CHECK(told.find(cause) != nullptr);
  }
  return told;
}

}  // namespace gpuidle::tests
