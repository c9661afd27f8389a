// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/job_report.h"

#include "libgpuidle/report/json_report.h"

namespace gpuidle::report {
namespace {

constexpr int kVersion = 1;

std::size_t index_of(const JobInput& input, const JobMember& member) {
  return static_cast<std::size_t>(&member - input.members.data());
}

void write_waits(const analysis::RankWaits& waits, JsonWriter* json) {
  json->field("exposed_communication_ns", waits.exposed_ns);
  json->field("waited_for_late_rank_ns", waits.waited_ns);
  json->field("capture_artefact_ns", waits.artefact_ns);
  json->field("exposed_transfer_ns", waits.transfer_ns);
  json->field("unmatched_ns", waits.unmatched_ns);
  json->field("made_others_wait_ns", waits.caused_ns);
}

void write_member(const JobInput& input, const JobMember& member, JsonWriter* json) {
  const std::size_t index = index_of(input, member);
  const analysis::RankWaits& waits = input.ranks.waits[index];
  json->begin_object();
  json->field("rank", member.rank).field("file", member.path);
  json->field("read_error", member.read_error);
  write_recording(member.info, json);
  json->key("clock");
  if (index < input.ranks.clocks.size()) {
    const analysis::ClockAlignment& clock = input.ranks.clocks[index];
    json->begin_object().field("offset_to_first_rank_ns", clock.offset_ns);
    json->field("bound_ns", clock.bound_ns);
    json->field("wall_clock_ahead_of_first_rank_ns", clock.skew_ns);
    json->field("matched_collectives", static_cast<std::uint64_t>(clock.matches)).end_object();
  } else {
    json->null();
  }
  json->key("devices").begin_array();
  for (const analysis::DeviceIdleness& device : member.found.devices) {
    json->begin_object().field("device", device.device);
    json->field("wall_ns", device.ledger.wall_ns()).field("compute_ns", device.ledger.compute_ns);
    json->field("exposed_communication_ns", device.ledger.exposed_communication_ns);
    json->field("exposed_copy_and_set_ns", device.ledger.exposed_copy_ns);
    json->field("idle_ns", device.ledger.idle.total_ns());
    json->field("not_observed_ns", device.ledger.not_observed_ns).end_object();
  }
  json->end_array();
  write_waits(waits, json);
  json->field("late_count", static_cast<std::uint64_t>(waits.late_count));
  json->key("while_others_waited").begin_array();
  for (const analysis::LateReason& reason : waits.reasons) {
    const auto place = member.places.find(reason.stack);
    json->begin_object().field("cause", analysis::row_of(reason.cause).id);
    json->field("place", place != member.places.end() ? place->second : std::string());
    json->field("total_ns", reason.total_ns).end_object();
  }
  json->end_array();
  json->key("findings").begin_array();
  for (std::size_t i = 0; i < member.findings.told.size(); ++i) {
    const analysis::Finding& finding = member.findings.told[i];
    json->begin_object().field("cause", analysis::row_of(finding.cause).id);
    json->field("place", member.finding_places[i]);
    json->field("total_ns", finding.total_ns).field("saving_at_most_ns", finding.saving_ns);
    json->end_object();
  }
  json->end_array();
  json->field("first_place",
              member.finding_places.empty() ? std::string() : member.finding_places.front());
  json->end_object();
}

}  // namespace

JobSums sums_of(const JobInput& input) {
  JobSums sums;
  for (const JobMember& member : input.members) {
    sums.wall_ns += member.found.wall_ns();
    sums.idle_ns += member.found.idle_ns();
    for (const auto& device : member.found.devices) sums.compute_ns += device.ledger.compute_ns;
  }
  for (const analysis::RankWaits& waits : input.ranks.waits) {
    sums.waits.exposed_ns += waits.exposed_ns;
    sums.waits.waited_ns += waits.waited_ns;
    sums.waits.artefact_ns += waits.artefact_ns;
    sums.waits.transfer_ns += waits.transfer_ns;
    sums.waits.unmatched_ns += waits.unmatched_ns;
    sums.waits.caused_ns += waits.caused_ns;
  }
  return sums;
}

const JobMember* straggler_of(const JobInput& input, bool* is_in_turn) {
  constexpr std::int64_t kWorthTelling_ns = 1'000'000;
  *is_in_turn = false;
  const JobSums sums = sums_of(input);
  const std::int64_t shared_ns = sums.waits.exposed_ns - sums.waits.artefact_ns;
  if (sums.waits.waited_ns < kWorthTelling_ns || sums.waits.waited_ns * 10 < shared_ns * 3) {
    return nullptr;
  }
  for (std::size_t i = 0; i < input.members.size(); ++i) {
    if (input.ranks.waits[i].caused_ns * 2 >= sums.waits.caused_ns) return &input.members[i];
  }
  *is_in_turn = true;
  return nullptr;
}

std::string reason_text(const JobMember& member, const analysis::LateReason& reason) {
  std::string text(analysis::row_of(reason.cause).id);
  const auto place = member.places.find(reason.stack);
  if (place != member.places.end() && !place->second.empty()) text += " at " + place->second;
  return text;
}

std::string json_job(const JobInput& input) {
  JsonWriter json;
  json.begin_object();
  json.field("schema", "gpuidle.job").field("version", kVersion);
  json.key("notes").begin_array();
  for (const std::string& note : input.notes) json.value(note);
  json.end_array();
  json.field("has_known_ranks", input.has_known_ranks);
  json.field("clocks_refused_because", input.ranks.refusal);
  json.key("clock_bound_ns");
  input.ranks.refusal.empty() ? json.value(input.ranks.bound_ns()) : json.null();
  json.field("matched_collectives", static_cast<std::uint64_t>(input.ranks.matched_count));
  const JobSums sums = sums_of(input);
  json.field("wall_ns", sums.wall_ns).field("idle_ns", sums.idle_ns);
  json.field("compute_ns", sums.compute_ns);
  write_waits(sums.waits, &json);
  bool is_in_turn = false;
  const JobMember* straggler = straggler_of(input, &is_in_turn);
  json.key("straggler_rank");
  straggler != nullptr ? json.value(straggler->rank) : json.null();
  json.field("ranks_late_in_turn", is_in_turn);
  json.key("ranks").begin_array();
  for (const JobMember& member : input.members) write_member(input, member, &json);
  json.end_array().end_object();
  return json.take();
}

}  // namespace gpuidle::report
