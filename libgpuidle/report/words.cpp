// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/words.h"

namespace gpuidle::report {

Word word_of(model::Source source) {
  switch (source) {
    case model::Source::cupti_shared:
      return {"cupti_shared", "CUPTI, beside other subscribers"};
    case model::Source::cupti:
      return {"cupti", "CUPTI, as its sole subscriber"};
    case model::Source::interposition:
      return {"interposition", "host calls only: the device itself was not watched"};
    case model::Source::off:
      return {"off", "nothing was recorded"};
    case model::Source::imported:
      return {"imported", "another tool's recording"};
    case model::Source::unknown:
      break;
  }
  return {"unknown", "not known"};
}

Word word_of(model::End end) {
  switch (end) {
    case model::End::clean:
      return {"clean", "the recording was closed in order"};
    case model::End::abrupt:
      return {"abrupt",
              "abruptly: killed, crashed or still running; the last second may be missing"};
    case model::End::unknown:
      break;
  }
  return {"unknown", "not known"};
}

Word word_of(model::LossReason reason) {
  using model::LossReason;
  switch (reason) {
    case LossReason::ring_full:
      return {"ring_full", "host calls dropped: idle time may be blamed on the wrong call"};
    case LossReason::cupti_dropped:
      return {"cupti_dropped", "device records dropped by CUPTI: busy time may read as idle"};
    case LossReason::zero_timestamp:
      return {"zero_timestamp", "device records without a time: busy time may read as idle"};
    case LossReason::reversed_timestamp:
      return {"reversed_timestamp", "records that end before they start: left out"};
    case LossReason::outside_session:
      return {"outside_session", "records from outside of the recorded time: left out"};
    case LossReason::unknown_record:
      return {"unknown_record", "records of a kind that is not known here: left out"};
    case LossReason::stack_truncated:
      return {"stack_truncated", "stacks cut at the greatest depth: outer frames missing"};
    case LossReason::write_failed:
      return {"write_failed", "records that could not be written: that time is not told right"};
    case LossReason::late_activity:
      return {"late_activity", "device records that came late: in this report, not in live gaps"};
    case LossReason::stack_unavailable:
      return {"stack_unavailable", "stacks that could not be taken: those gaps name no line"};
    case LossReason::overlapping:
      return {"overlapping", "overlapping records in one stream: busy time may be too long"};
    case LossReason::sample_dropped:
      return {"sample_dropped", "samples of waiting threads dropped: those gaps may lack a reason"};
    case LossReason::sample_moved:
      return {"sample_moved", "samples without a stack: the thread went on while it was looked at"};
    case LossReason::sample_unanswered:
      return {"sample_unanswered", "samples without a stack: the thread took no signal in time"};
    case LossReason::unknown:
      break;
  }
  return {"unknown", "records lost for a reason that is not known"};
}

Word word_of(analysis::Opener opener) {
  switch (opener) {
    case analysis::Opener::ran_dry:
      return {"ran_dry", "the host did other things until"};
    case analysis::Opener::blocked_in:
      return {"blocked_in", "the host was waiting in"};
    case analysis::Opener::unknown:
      break;
  }
  return {"unknown", "what the host did before is not known; next came"};
}

}  // namespace gpuidle::report
