// SPDX-License-Identifier: Apache-2.0
//
// What the analysis finds in a recording: per device a ledger that adds up to the wall time, the
// gaps in it, and the places in the program they come from. Text and JSON reports are both made
// from these structs and from nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "libgpuidle/analysis/cause.h"
#include "libgpuidle/analysis/frame_work.h"
#include "libgpuidle/base/status.h"
#include "libgpuidle/model/recording.h"

namespace gpuidle::analysis {

/// The parts of idle time, in ns; they add up to it exactly.
struct IdleSplit {
  std::int64_t host_ns = 0;     ///< nothing was queued for the device
  std::int64_t call_ns = 0;     ///< the host was inside the call that enqueued the next work
  std::int64_t device_ns = 0;   ///< work was queued, the device had not started it
  std::int64_t unknown_ns = 0;  ///< the call that enqueued the next work is not in the recording

  std::int64_t total_ns() const { return host_ns + call_ns + device_ns + unknown_ns; }
  void add(const IdleSplit& other) {
    host_ns += other.host_ns;
    call_ns += other.call_ns;
    device_ns += other.device_ns;
    unknown_ns += other.unknown_ns;
  }
};

/// Where the time of one device went inside [start_ns, end_ns), each moment counted once, the first
/// that applies: not observed, compute, communication, copy and set, idle.
struct Ledger {
  std::int64_t start_ns = 0;  ///< start of the first operation
  std::int64_t end_ns = 0;    ///< end of the last one
  std::int64_t compute_ns = 0;
  std::int64_t exposed_communication_ns = 0;  ///< communication kernels only
  std::int64_t exposed_copy_ns = 0;           ///< copies and sets only
  std::int64_t not_observed_ns = 0;
  IdleSplit idle;

  std::int64_t wall_ns() const { return end_ns - start_ns; }
  std::int64_t any_busy_ns() const {
    return compute_ns + exposed_communication_ns + exposed_copy_ns;
  }
  /// What all parts add up to; equals wall_ns().
  std::int64_t sum_ns() const { return any_busy_ns() + idle.total_ns() + not_observed_ns; }
};

/// Why the device had nothing left to do when a gap began.
enum class Opener : std::uint8_t {
  unknown = 0,     ///< the closing call or its thread is not known, or what was before not observed
  ran_dry = 1,     ///< the feeding thread was not blocked: it did something else
  blocked_in = 2,  ///< the feeding thread stood in a call that waited for the device
};

/// The part of an ApiCall that a result refers to. api 0 = not known.
struct CallSite {
  std::int64_t enter_ns = 0;
  std::int64_t exit_ns = 0;
  std::uint32_t correlation = 0;
  model::ThreadId thread = 0;
  model::ApiId api = 0;
  model::StackId stack = 0;
  model::ApiRole role = model::ApiRole::other;
};

struct Gap {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t device = 0;
  Opener opener = Opener::unknown;
  IdleSplit split;
  std::optional<CallSite> closing;   ///< enqueued the operation that ended the gap
  std::optional<CallSite> blocking;  ///< opener == blocked_in: the call that was waited in
  /// Blocked-in only: without the wait the host could have run ahead by no more than this, the
  /// smaller of the gap and the device's busy time during the call. Empty: not known.
  std::optional<std::int64_t> saving_bound_ns;
  Cause cause = Cause::unknown;
  Grade grade = Grade::c;
  std::int64_t removable_ns = 0;  ///< what at most goes away with the cause
  model::StackId inside = 0;      ///< where the host was sampled for most of it, if that says why
  WorkerState workers = WorkerState::unknown;

  std::int64_t length_ns() const { return end_ns - start_ns; }
};

/// What the gaps of one cause add up to.
struct CauseSums {
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;
  std::int64_t removable_ns = 0;
  std::array<std::int64_t, 3> graded_ns{};                  ///< total_ns by Grade
  std::array<std::int64_t, kWorkerStateCount> worker_ns{};  ///< total_ns by WorkerState

  void add(const Gap& gap);
  void add(const CauseSums& other);
};

/// Gaps of one device with the same cause and origin: the blocking call and its stack when the
/// feeding thread was blocked, else the call that ended the gap and its stack. Where samples say
/// what the host did instead, the stack is theirs.
struct GapGroup {
  std::uint32_t device = 0;
  Opener opener = Opener::unknown;
  model::ApiId api = 0;      ///< 0 = call not known
  model::StackId stack = 0;  ///< 0 = no stack taken
  Cause cause = Cause::unknown;
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;
  IdleSplit split;
  std::optional<std::int64_t> saving_bound_ns;  ///< sum over the gaps where it is known
  CauseSums steady, warm_up;                    ///< the same gaps, by when they were
  Gap longest;

  /// Adds the figures of a group of the same device; origin and stack stay.
  void absorb(const GapGroup& other);
};

/// Most idle time first; ties by device and first occurrence, so that equal recordings give equal
/// reports.
void rank(std::vector<GapGroup>* groups);

/// Copies between host and device, or communication, of one place in the program.
struct ExposedGroup {
  bool is_communication = false;  ///< collective kernels, or copies between devices
  model::CopyKind copy = model::CopyKind::unknown;
  model::MemoryKind source = model::MemoryKind::unknown;
  model::KernelId kernel = 0;  ///< of the first operation
  model::ApiId api = 0;
  model::StackId stack = 0;
  HostWork work = HostWork::other;  ///< what the stack gives away
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t largest_bytes = 0;
  std::int64_t total_ns = 0;    ///< sum of the operations' times
  std::int64_t exposed_ns = 0;  ///< time in which no kernel but communication ran beside them
  std::int64_t call_ns = 0;     ///< time the host spent inside the calls
};

/// True if `a` ranks before `b` among the largest gaps: longest first, ties by start.
bool ranks_before(const Gap& a, const Gap& b);

/// Gaps by length: [0, 10 us), [10 us, 1 ms), [1 ms, 500 ms), [500 ms, ...).
inline constexpr std::size_t kSizeClassCount = 4;
inline constexpr std::array<std::int64_t, kSizeClassCount - 1> kSizeClassLimits_ns = {
    10'000, 1'000'000, 500'000'000};
struct SizeClass {
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;
};

struct DeviceIdleness {
  std::uint32_t device = 0;
  /// False where the recording cannot tell which of several devices the host fed.
  bool is_device_known = true;
  Ledger ledger;
  std::optional<std::int64_t> head_ns;  ///< process start to first operation
  std::optional<std::int64_t> tail_ns;  ///< end of last operation to end of recording
  std::array<SizeClass, kSizeClassCount> gaps{};
  std::uint64_t kernel_count = 0;  ///< communication kernels included
  std::uint64_t communication_count = 0;
  std::uint64_t copy_count = 0;
  std::uint64_t set_count = 0;
  std::uint64_t graph_count = 0;          ///< graphs recorded as a whole
  std::uint64_t without_call_count = 0;   ///< operations whose call is not in the recording
  std::uint64_t called_kernel_count = 0;  ///< kernels of 50 us and more whose call is known
  /// Of these, kernels whose call returned only after they had ended.
  std::uint64_t awaited_kernel_count = 0;
  /// Launch calls of 1 ms and more all through which the device was busy: the queue was full.
  std::uint64_t full_queue_count = 0;
  std::int64_t full_queue_ns = 0;
  std::int64_t profiler_ns = 0;  ///< idle time that the profiler's own work covers
  /// Runs of gaps of one cause that are no more than 2 s apart.
  std::array<std::uint64_t, kCauseCount> episode_count{};

  std::uint64_t gap_count() const;
  /// Of the observed time, 0..1: any kernel runs (what nvidia-smi's utilisation samples); any
  /// operation runs; a kernel that is not communication runs. Empty if nothing was observed.
  std::optional<double> kernel_ratio() const;
  std::optional<double> any_ratio() const;
  std::optional<double> compute_ratio() const;
};

/// Below this many kernels percentages say little about the program.
inline constexpr std::uint64_t kEnoughKernels = 50;

struct Idleness {
  std::vector<DeviceIdleness> devices;        ///< by ordinal; only devices that were used
  std::vector<GapGroup> groups;               ///< most idle time first
  std::vector<Gap> largest;                   ///< longest first
  std::vector<ExposedGroup> exposed;          ///< most exposed time first
  std::optional<std::int64_t> first_call_ns;  ///< enter of the first call
  /// From the first call on, how long code was loaded or memory allocated at least once a second.
  std::int64_t warm_up_ns = 0;
  std::uint64_t activity_count = 0;
  std::uint64_t call_count = 0;
  std::uint64_t enqueue_count = 0;  ///< calls that put work on a device
  std::uint64_t ignored_count = 0;  ///< activities of unknown kind, reversed or out of order
  /// Launches without a device record, where records were lost: what would be idle and may have
  /// been their work is not observed (see LostWork).
  std::uint64_t lost_launch_count = 0;
  /// True: no device was watched; idle time is what the host's calls prove (see ProvenIdle).
  bool is_proof_only = false;

  std::int64_t idle_ns() const;
  std::int64_t wall_ns() const;
};

/// Receives every gap once it is known in full, those of one device in order of time.
class GapSink {
 public:
  virtual ~GapSink() = default;
  virtual void on_gap(const Gap& gap) = 0;
};

struct Options {
  std::size_t largest_gaps = 20;  ///< how many Idleness::largest keeps
  GapSink* gaps = nullptr;        ///< who else wants the gaps, if anybody
  FrameNames* names = nullptr;    ///< names native frames; nullptr: they give nothing away
  /// Who else wants the slices, if anybody: reading a recording costs more than looking at it.
  std::vector<model::SliceVisitor*> also;
};

/// One pass over all records; memory is bounded by the dictionaries and fixed windows. The status
/// is that of Recording::visit(); `*found` holds what was readable before an error.
/// Context: tool.
base::Status analyze(const model::Recording& recording, const Options& options, Idleness* found);

}  // namespace gpuidle::analysis
