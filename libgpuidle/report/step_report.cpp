// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/step_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "libgpuidle/report/format.h"
#include "libgpuidle/symbols/demangle.h"

namespace gpuidle::report {
namespace {

using analysis::StepTimes;

std::string name_of(const ReportInput& input, const StepTimes& steps) {
  return symbols::demangle(input.recording.tables().string(steps.name));
}

std::string how_found(const ReportInput& input, const StepTimes& steps) {
  return fmt::format(steps.is_marked
                         ? "marked in the recording, the first as {}"
                         : "not marked: what is launched repeats, and {} comes once each time",
                     elide(name_of(input, steps), 60));
}

std::string slow_steps(const StepTimes& steps) {
  if (steps.slow_count == 0) {
    return fmt::format("none takes more than {:.1f} x the median", analysis::kSlowStep);
  }
  std::string text = fmt::format("{} over {:.1f} x the median, {} beyond it together",
                                 count_of(steps.slow_count, "slow step"), analysis::kSlowStep,
                                 format_duration(steps.slow_extra_ns));
  for (std::size_t i = 0; i < steps.reasons.size(); ++i) {
    text += fmt::format("{}{} more in {}", i == 0 ? ": " : ", ",
                        format_duration(steps.reasons[i].extra_ns),
                        analysis::row_of(steps.reasons[i].cause).id);
  }
  if (steps.reasons.empty()) text += ": not idle time, the device itself worked longer";
  return text;
}

}  // namespace

std::string text_steps(const ReportInput& input, const Style& style) {
  if (input.steps == nullptr) return {};
  const StepTimes& steps = *input.steps;
  std::string text = "\n" + style.heading("Steps") + " (from the start of one to the next)\n";
  text += wrap(how_found(input, steps), "  ", 2);
  text += wrap(fmt::format("{}{}: median {}, 95th percentile {}, shortest {}, longest {}",
                           steps.is_cut ? "the first " : "", count_of(steps.count, "step"),
                           format_duration(steps.median_ns), format_duration(steps.p95_ns),
                           format_duration(steps.shortest_ns), format_duration(steps.longest_ns)),
               "  ", 2);
  return text + wrap(slow_steps(steps), "  ", 2);
}

void write_steps(const ReportInput& input, JsonWriter* json) {
  json->key("steps");
  if (input.steps == nullptr) {
    json->null();
    return;
  }
  const StepTimes& steps = *input.steps;
  json->begin_object();
  json->field("is_marked", steps.is_marked).field("name", name_of(input, steps));
  json->field("device", steps.device).field("count", steps.count).field("is_cut", steps.is_cut);
  json->field("median_ns", steps.median_ns).field("p95_ns", steps.p95_ns);
  json->field("shortest_ns", steps.shortest_ns).field("longest_ns", steps.longest_ns);
  json->field("slow_count", steps.slow_count).field("slow_extra_ns", steps.slow_extra_ns);
  json->key("slow_reasons").begin_array();
  for (const analysis::SlowReason& reason : steps.reasons) {
    json->begin_object();
    json->field("cause", analysis::row_of(reason.cause).id).field("extra_ns", reason.extra_ns);
    json->end_object();
  }
  json->end_array().end_object();
}

}  // namespace gpuidle::report
