// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/session/attach_door.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "libgpuidle/base/own_thread.h"
#include "libgpuidle/base/version.h"
#include "libgpuidle/record/host_clock.h"
#include "libgpuidle/session/session.h"

namespace gpuidle::session {
namespace {

using control::Answer;
using control::Command;
using control::StartedBy;
using control::State;

// While a recording runs on request, its deadline and its client are looked at this often.
constexpr std::int64_t kLook_ns = 250'000'000;
// While another runs, its end is noted this much later at most.
constexpr std::int64_t kRarely_ns = 1'000'000'000;
// While nothing runs, only a request wakes the thread.
constexpr std::int64_t kLongSleep_ns = 3'600'000'000'000;
// A client that holds a recording open beats once a second; after this long it has died.
constexpr std::int64_t kLease_ns = 5'000'000'000;

}  // namespace

base::Status AttachDoor::open() { return block_.create(base::kToolVersion); }

bool AttachDoor::start_hearing() {
  if (!block_.exists()) return false;
  return base::start_own_thread(
      "gpuidle-control", [](void* self) { static_cast<AttachDoor*>(self)->hear(); }, this);
}

void AttachDoor::close() { block_.remove(); }

std::int64_t AttachDoor::sleep_ns() const {
  if (!session_.is_recording()) return kLongSleep_ns;
  if (!is_serving_) return kRarely_ns;
  if (deadline_ns_ == 0) return kLook_ns;
  return std::clamp<std::int64_t>(deadline_ns_ - record::host_now_ns(), 1, kLook_ns);
}

void AttachDoor::hear() {
  block_.add_own_thread(static_cast<std::uint32_t>(syscall(SYS_gettid)));
  while (!session_.is_ending()) {
    if (!session_.is_recording()) block_.note_dormant();
    const control::Request request = block_.wait(sleep_ns());
    switch (request.command) {
      case Command::none:
        break;
      case Command::start:
        on_start(request);
        break;
      case Command::stop:
        on_stop(request);
        break;
      default:
        block_.answer(request, Answer::refused, "the recorder does not know this request");
    }
    check_end();
  }
}

void AttachDoor::on_start(const control::Request& request) {
  if (session_.is_recording()) {
    block_.answer(request, Answer::already_recording, "a recording is running");
    return;
  }
  block_.set_state(State::armed, StartedBy::request);
  std::string why_not;
  if (!session_.begin_on_request(request.output, &why_not)) {
    block_.note_dormant();
    block_.answer(request, Answer::refused, why_not);
    return;
  }
  const std::int64_t now_ns = record::host_now_ns();
  is_serving_ = true;
  // A duration that a hostile client made absurd is no end at all, and must not overflow.
  const bool has_end = request.duration_ns > 0 &&
                       request.duration_ns < std::numeric_limits<std::int64_t>::max() - now_ns;
  deadline_ns_ = has_end ? now_ns + request.duration_ns : 0;
  has_lease_ = request.has_lease || !has_end;
  last_beats_ = block_.beats();
  last_beat_ns_ = now_ns;
  block_.set_left(has_end ? request.duration_ns : 0);
  block_.answer(request, Answer::done, "");
}

void AttachDoor::on_stop(const control::Request& request) {
  if (!session_.is_recording()) {
    block_.answer(request, Answer::not_recording, "nothing is being recorded");
    return;
  }
  // Heard at once; that the trace is whole shows in the state.
  block_.answer(request, Answer::done, "");
  session_.end_on_request();
  is_serving_ = false;
}

void AttachDoor::check_end() {
  if (!is_serving_) return;
  if (!session_.is_recording()) {  // it failed, or the program is ending
    is_serving_ = false;
    return;
  }
  const std::int64_t now_ns = record::host_now_ns();
  if (const std::uint32_t beats = block_.beats(); beats != last_beats_) {
    last_beats_ = beats;
    last_beat_ns_ = now_ns;
  }
  const bool is_over = deadline_ns_ != 0 && now_ns >= deadline_ns_;
  const bool is_abandoned = has_lease_ && now_ns - last_beat_ns_ > kLease_ns;
  if (deadline_ns_ != 0) block_.set_left(std::max<std::int64_t>(deadline_ns_ - now_ns, 1));
  if (!is_over && !is_abandoned) return;
  session_.end_on_request();
  is_serving_ = false;
}

}  // namespace gpuidle::session
