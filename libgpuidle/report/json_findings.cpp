// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/json_findings.h"

#include "libgpuidle/report/finding_places.h"
#include "libgpuidle/report/text_findings.h"
#include "libgpuidle/report/words.h"

namespace gpuidle::report {
namespace {

using analysis::Finding;
using analysis::Gap;

void write_site(std::string_view key, const std::optional<analysis::CallSite>& site, Places& places,
                JsonWriter* json) {
  json->key(key);
  if (!site) {
    json->null();
    return;
  }
  json->begin_object();
  json->field("call", places.api_name(site->api));
  json->field("enter_ns", site->enter_ns).field("exit_ns", site->exit_ns);
  write_stack(places.of(site->stack), json);
  json->end_object();
}

void write_line(const FindingLine& line, Places& places, JsonWriter* json) {
  json->begin_object();
  json->field("call", places.api_name(line.api)).field("count", line.count);
  json->field("cost_ns", line.total_ns).field("saving_at_most_ns", line.removable_ns);
  write_stack(line.place, json);
  json->end_object();
}

void write_transfers(const Finding& finding, JsonWriter* json) {
  json->key("transfers");
  if (!finding.transfers) {
    json->null();
    return;
  }
  const analysis::TransferFacts& facts = *finding.transfers;
  json->begin_object();
  json->field("count", facts.count).field("bytes", facts.bytes);
  json->field("device_ns", facts.total_ns).field("exposed_ns", facts.exposed_ns);
  json->field("call_ns", facts.call_ns).field("is_source_memory_known", facts.is_source_known);
  json->end_object();
}

void write_workers(const Finding& finding, JsonWriter* json) {
  json->key("child_processes").begin_object();
  json->field("busy_ns", finding.worker_ns[1]).field("network_ns", finding.worker_ns[2]);
  json->field("disk_ns", finding.worker_ns[3]).field("idle_ns", finding.worker_ns[4]);
  json->field("not_known_ns", finding.worker_ns[0]).end_object();
}

void write_finding(const Finding& finding, Places& places, JsonWriter* json) {
  const analysis::CauseRow& row = analysis::row_of(finding.cause);
  const std::vector<FindingLine> lines = lines_of(finding, places);
  json->begin_object();
  json->field("cause", row.id).field("category", row.category);
  json->field("is_high", finding.is_high).field("is_likely", finding.is_likely);
  json->field("evidence_grade", grade_key(finding.grade)).field("evidence", evidence_of(finding));
  json->field("cost_ns", finding.total_ns).field("window_ns", finding.window_ns);
  json->field("saving_at_most_ns", finding.saving_ns);
  json->field("gap_count", finding.count).field("episode_count", finding.episode_count);
  write_split(finding.split, json);
  write_workers(finding, json);
  write_transfers(finding, json);
  json->key("devices").begin_array();
  for (const std::uint32_t device : finding.devices) json->value(device);
  json->end_array();
  json->field("meaning", row.meaning).field("fix", fix_of(finding, lines));
  json->key("places").begin_array();
  for (const FindingLine& line : lines) write_line(line, places, json);
  json->end_array().end_object();
}

}  // namespace

void write_stack(const Place& place, JsonWriter* json) {
  json->key("user_frame_index");
  place.user_frame ? json->value(static_cast<std::uint64_t>(*place.user_frame)) : json->null();
  json->key("stack").begin_array();
  for (const symbols::ResolvedFrame& frame : place.frames) {
    json->begin_object();
    json->field("function", frame.function).field("module", frame.module);
    json->field("file", frame.file).field("line", frame.line).field("is_exact", frame.is_exact);
    json->end_object();
  }
  json->end_array();
}

void write_split(const analysis::IdleSplit& split, JsonWriter* json) {
  json->key("idle_split").begin_object();
  json->field("nothing_queued_ns", split.host_ns);
  json->field("being_queued_ns", split.call_ns);
  json->field("queued_not_started_ns", split.device_ns);
  json->field("not_known_ns", split.unknown_ns);
  json->end_object();
}

void write_gap(const Gap& gap, Places& places, JsonWriter* json) {
  json->begin_object();
  json->field("device", gap.device).field("start_ns", gap.start_ns).field("end_ns", gap.end_ns);
  json->field("length_ns", gap.length_ns()).field("opener", word_of(gap.opener).key);
  write_split(gap.split, json);
  json->field("saving_at_most_ns", gap.saving_bound_ns);
  json->field("cause", analysis::row_of(gap.cause).id);
  json->field("evidence_grade", grade_key(gap.grade));
  write_site("blocking_call", gap.blocking, places, json);
  write_site("closing_call", gap.closing, places, json);
  json->end_object();
}

std::string_view grade_key(analysis::Grade grade) {
  constexpr std::string_view kKeys[] = {"A", "B", "C"};
  return kKeys[static_cast<std::size_t>(grade)];
}

void write_findings(const ReportInput& input, Places& places, JsonWriter* json) {
  json->key("findings").begin_array();
  for (const Finding& finding : input.findings.told) write_finding(finding, places, json);
  json->end_array();
  json->key("findings_set_aside").begin_array();
  for (const Finding& finding : input.findings.set_aside) write_finding(finding, places, json);
  json->end_array();
  json->field("combined_saving_at_most_ns", input.findings.combined_saving_ns);
  json->field("warm_up_ns", input.findings.warm_up_ns);
  json->field("warm_up_idle_ns", input.findings.warm_up_idle_ns);
}

}  // namespace gpuidle::report
