// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/json_report.h"

#include "libgpuidle/report/device_memory_report.h"
#include "libgpuidle/report/json_device_use.h"
#include "libgpuidle/report/json_findings.h"
#include "libgpuidle/report/step_report.h"
#include "libgpuidle/report/words.h"

namespace gpuidle::report {
namespace {

using analysis::DeviceIdleness;
using analysis::GapGroup;

constexpr int kVersion = 1;

void write_device(const ReportInput& input, const DeviceIdleness& device, JsonWriter* json) {
  const analysis::Ledger& ledger = device.ledger;
  json->begin_object();
  json->field("device", device.device).field("is_device_known", device.is_device_known);
  std::string_view name;
  for (const model::Device& row : input.recording.tables().devices()) {
    if (row.ordinal == device.device) name = input.recording.tables().string(row.name);
  }
  json->field("name", name);
  json->field("window_start_ns", ledger.start_ns).field("window_end_ns", ledger.end_ns);
  json->field("wall_ns", ledger.wall_ns()).field("compute_ns", ledger.compute_ns);
  json->field("exposed_communication_ns", ledger.exposed_communication_ns);
  json->field("exposed_copy_and_set_ns", ledger.exposed_copy_ns);
  json->field("any_busy_ns", ledger.any_busy_ns());
  json->field("idle_ns", ledger.idle.total_ns());
  write_split(ledger.idle, json);
  json->field("not_observed_ns", ledger.not_observed_ns);
  json->field("head_ns", device.head_ns).field("tail_ns", device.tail_ns);
  json->field("kernel_utilisation_ratio", device.kernel_ratio());
  json->field("any_utilisation_ratio", device.any_ratio());
  json->field("compute_utilisation_ratio", device.compute_ratio());
  json->field("kernel_count", device.kernel_count);
  json->field("communication_kernel_count", device.communication_count);
  json->field("copy_count", device.copy_count).field("set_count", device.set_count);
  json->field("graph_count", device.graph_count);
  json->field("without_call_count", device.without_call_count);
  json->field("full_queue_call_count", device.full_queue_count);
  json->field("full_queue_ns", device.full_queue_ns);
  json->field("profiler_in_idle_ns", device.profiler_ns);
  json->field("has_enough_kernels", device.kernel_count >= analysis::kEnoughKernels);
  json->field("gap_count", device.gap_count());
  json->key("gaps_by_length").begin_array();
  for (std::size_t i = 0; i < device.gaps.size(); ++i) {
    json->begin_object();
    json->field("from_ns", i == 0 ? std::int64_t{0} : analysis::kSizeClassLimits_ns[i - 1]);
    json->key("below_ns");
    i < analysis::kSizeClassLimits_ns.size() ? json->value(analysis::kSizeClassLimits_ns[i])
                                             : json->null();
    json->field("count", device.gaps[i].count).field("total_ns", device.gaps[i].total_ns);
    json->end_object();
  }
  json->end_array();
  write_device_use(input, device, json);
  json->end_object();
}

void write_group(const GapGroup& group, Places& places, JsonWriter* json) {
  json->begin_object();
  json->field("device", group.device).field("opener", word_of(group.opener).key);
  json->field("call", places.api_name(group.api));
  json->field("idle_ns", group.total_ns).field("gap_count", group.count);
  write_split(group.split, json);
  json->field("saving_at_most_ns", group.saving_bound_ns);
  write_stack(places.of(group.stack), json);
  json->key("longest_gap");
  write_gap(group.longest, places, json);
  json->end_object();
}

void write_head(const ReportInput& input, std::string_view schema, JsonWriter* json) {
  json->field("schema", schema).field("version", kVersion);
  write_recording(input.recording.info(), json);
  json->field("read_error", input.read_status.message());
  json->field("ignored_record_count", input.found.ignored_count);
  json->field("launch_without_record_count", input.found.lost_launch_count);
  json->field("is_complete", !is_incomplete(input));
  json->field("has_gpu_records", !has_no_gpu_records(input.found) && !input.found.is_proof_only);
  json->field("is_proof_only", input.found.is_proof_only);
  json->field("activity_count", input.found.activity_count);
  json->field("call_count", input.found.call_count);
  json->field("queueing_call_count", input.found.enqueue_count);
}

}  // namespace

void write_recording(const model::RecordingInfo& info, JsonWriter* json) {
  json->key("recording").begin_object();
  json->field("producer", info.producer).field("format", info.format);
  json->field("source", word_of(info.source).key).field("source_reason", info.source_reason);
  json->field("detail_level", info.detail_level).field("program", info.program);
  json->key("command").begin_array();
  for (const std::string& word : info.command) json->value(word);
  json->end_array();
  json->field("host_name", info.host_name).field("pid", info.pid);
  json->field("process_start_ns", info.process_start_ns);
  json->field("recording_start_ns", info.recording_start_ns);
  json->field("recording_end_ns", info.recording_end_ns);
  json->field("realtime_offset_ns", info.realtime_offset_ns);
  json->field("rank", info.rank).field("world_size", info.world_size);
  json->field("end", word_of(info.end).key).field("launch_call_count", info.launch_calls);
  json->end_object();
  json->key("losses").begin_object();
  json->field("total", info.losses.total());
  for (std::size_t i = 0; i < info.losses.count.size(); ++i) {
    json->field(word_of(static_cast<model::LossReason>(i)).key, info.losses.count[i]);
  }
  json->end_object();
  json->key("warnings").begin_array();
  for (const std::string& warning : info.warnings) json->value(warning);
  json->end_array();
}

std::string json_report(const ReportInput& input, Places& places) {
  JsonWriter json;
  json.begin_object();
  write_head(input, "gpuidle.report", &json);
  json.key("devices").begin_array();
  for (const DeviceIdleness& device : input.found.devices) write_device(input, device, &json);
  json.end_array();
  write_device_memory(input, &json);
  write_findings(input, places, &json);
  write_steps(input, &json);
  json.key("idle_origins").begin_array();
  for (const GapGroup& group : input.origins) write_group(group, places, &json);
  json.end_array();
  json.key("name_warnings").begin_array();
  for (const std::string& warning : places.warnings()) json.value(warning);
  json.end_array().end_object();
  return json.take();
}

std::string json_gaps(const ReportInput& input, Places& places) {
  JsonWriter json;
  json.begin_object();
  write_head(input, "gpuidle.gaps", &json);
  json.key("gaps").begin_array();
  for (std::size_t i = 0; i < input.found.largest.size() && i < input.top; ++i) {
    write_gap(input.found.largest[i], places, &json);
  }
  json.end_array();
  json.key("name_warnings").begin_array();
  for (const std::string& warning : places.warnings()) json.value(warning);
  json.end_array().end_object();
  return json.take();
}

}  // namespace gpuidle::report
