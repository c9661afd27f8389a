// SPDX-License-Identifier: Apache-2.0
//
// The report on a job of several ranks: one verdict, a table with a row per rank, and how far the
// comparison of the ranks can be trusted. Text and JSON, from the same structs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libgpuidle/analysis/findings.h"
#include "libgpuidle/analysis/idleness.h"
#include "libgpuidle/analysis/ranks.h"
#include "libgpuidle/model/recording.h"
#include "libgpuidle/report/terminal.h"

namespace gpuidle::report {

/// One recording of the job; the recording itself is closed by now.
struct JobMember {
  std::string path;
  std::int32_t rank = 0;
  model::RecordingInfo info;
  analysis::Idleness found;
  analysis::Findings findings;
  std::vector<std::string> finding_places;  ///< of findings.told, in its order; "" = none
  /// The user's line of the stacks behind the longer gaps, where there is one.
  std::map<model::StackId, std::string> places;
  std::string read_error;  ///< "" = read to its end
};

struct JobInput {
  const std::vector<JobMember>& members;  ///< by rank
  const analysis::JobRanks& ranks;        ///< in the same order
  bool has_known_ranks = true;            ///< false: the numbers are the order of the files
  std::vector<std::string> notes;         ///< one line each: files left out, ranks missing
  std::size_t top_findings = 1;           ///< per rank, in text
  std::size_t top_reasons = 3;            ///< why a rank was late, in text
};

/// The sums over all ranks that verdict and JSON tell.
struct JobSums {
  std::int64_t wall_ns = 0;
  std::int64_t idle_ns = 0;
  std::int64_t compute_ns = 0;
  analysis::RankWaits waits;  ///< without reasons
};
JobSums sums_of(const JobInput& input);

/// The member that makes the others wait most, if that is worth telling: the waits come to 1 ms and
/// to 30 % of the exposed communication, and half of them are this rank's. nullptr: nobody is to
/// blame. `*is_in_turn`: the waits are worth telling, but several ranks come late in turn.
const JobMember* straggler_of(const JobInput& input, bool* is_in_turn);

/// `gpuidle report` of several files. Context: tool.
std::string text_job(const JobInput& input, const Style& style);
/// The same with --json, schema "gpuidle.job".
std::string json_job(const JobInput& input);

/// "data.loader-wait at next_batch (train.py:42)", or the cause alone.
std::string reason_text(const JobMember& member, const analysis::LateReason& reason);

}  // namespace gpuidle::report
