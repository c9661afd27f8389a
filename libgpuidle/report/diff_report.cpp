// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/diff_report.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/json_report.h"

namespace gpuidle::report {
namespace {

using analysis::CauseChange;
using analysis::Outcome;
using analysis::RunFigures;

constexpr int kVersion = 1;
constexpr std::size_t kIndent = 11;

struct PartWord {
  std::string_view key, name;
};
// In the order of LedgerPart.
constexpr PartWord kParts[analysis::kLedgerPartCount] = {
    {"compute_ns", "compute"},
    {"exposed_communication_ns", "exposed communication"},
    {"exposed_copy_and_set_ns", "exposed copy and set"},
    {"nothing_queued_ns", "idle: H nothing queued"},
    {"being_queued_ns", "idle: A being queued"},
    {"queued_not_started_ns", "idle: D queued, not started"},
    {"split_not_known_ns", "idle: split not known"},
    {"not_observed_ns", "not observed"}};

PartWord word_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::came_true:
      return {"came_true", "came true"};
    case Outcome::in_part:
      return {"in_part", "came true in part"};
    case Outcome::did_not_come:
      return {"did_not_come", "did not come true, its cause is still there"};
    case Outcome::exceeded:
      break;
  }
  return {"exceeded", "more than predicted: other changes helped, or the bound was wrong"};
}

std::int64_t rounded(double ns) { return std::llround(ns); }

std::string format_change(double before_ns, double after_ns) {
  const std::int64_t change_ns = rounded(after_ns) - rounded(before_ns);
  return (change_ns < 0 ? "-" : "+") + format_duration(std::abs(change_ns));
}

std::string format_ratio(double before, double after) {
  if (before <= 0) return "new";
  return fmt::format("{:+.1f} %", 100 * (after - before) / before);
}

std::string row(std::string_view name, std::string_view text) {
  return wrap(text, fmt::format("{:<{}}", name, kIndent), kIndent);
}

std::string header(const DiffInput& input, const Style& style) {
  std::string text;
  for (const DiffSide* side : {&input.before, &input.after}) {
    text += row(side == &input.before ? "before" : "after",
                fmt::format("{} ({})", elide_front(side->path, 50), side->info.format));
    if (!side->read_error.empty()) text += style.warning(row("", side->read_error));
    if (side->info.losses.total() > 0) {
      text += style.warning(row("", fmt::format("{} lost: gpuidle report says what that can change",
                                                count_of(side->info.losses.total(), "record"))));
    }
  }
  const std::uint64_t kernels = input.before.figures.kernel_count;
  const std::uint64_t kernels_after = input.after.figures.kernel_count;
  text += row("work", fmt::format("{} kernels before, {} after ({})", format_count(kernels),
                                  format_count(kernels_after),
                                  format_ratio(static_cast<double>(kernels),
                                               static_cast<double>(kernels_after))));
  return text;
}

std::string verdict_of_steps(const DiffInput& input) {
  const analysis::StepSpread before = analysis::spread_of(input.before.figures.steps_ns);
  const analysis::StepSpread after = analysis::spread_of(input.after.figures.steps_ns);
  const double chance = input.compared.chance.value_or(1);
  return wrap(
      fmt::format(
          "A step takes {} (standard deviation {}, {} steps) before and {} ({}, {} steps) after: "
          "{} ({}). {}: if the change had no effect, steps would differ this much by chance in "
          "{:.2g} % of cases.",
          format_duration(rounded(before.mean_ns)), format_duration(rounded(before.deviation_ns)),
          format_count(input.before.figures.steps_ns.size()),
          format_duration(rounded(after.mean_ns)), format_duration(rounded(after.deviation_ns)),
          format_count(input.after.figures.steps_ns.size()),
          format_change(before.mean_ns, after.mean_ns), format_ratio(before.mean_ns, after.mean_ns),
          chance < analysis::kSignificant ? "Significant" : "Within the steps' own spread",
          100 * chance),
      "  ", 2);
}

std::string verdict(const DiffInput& input) {
  const analysis::RunComparison& compared = input.compared;
  std::string text;
  if (compared.is_per_step) {
    text = verdict_of_steps(input);
  } else {
    text = wrap(fmt::format("From first to last operation: {} before, {} after: {} ({}). Without "
                            "marked steps on both sides it cannot be told whether that is more "
                            "than chance, nor whether both did the same work.",
                            format_duration(input.before.figures.wall_ns),
                            format_duration(input.after.figures.wall_ns),
                            format_change(compared.wall_before_ns, compared.wall_after_ns),
                            format_ratio(compared.wall_before_ns, compared.wall_after_ns)),
                "  ", 2);
  }
  const RunFigures &before = input.before.figures, &after = input.after.figures;
  return text + wrap(fmt::format("Idle: {} of wall time before, {} after.",
                                 format_share(before.idle_ns(), before.wall_ns),
                                 format_share(after.idle_ns(), after.wall_ns)),
                     "  ", 2);
}

std::string change_row(std::string_view name, double before_ns, double after_ns) {
  return fmt::format("  {:<30}{:>12}{:>12}{:>13}\n", name, format_duration(rounded(before_ns)),
                     format_duration(rounded(after_ns)), format_change(before_ns, after_ns));
}

std::string ledger(const DiffInput& input, const Style& style) {
  const analysis::RunComparison& compared = input.compared;
  std::string text =
      "\n" +
      style.heading(compared.is_per_step ? "Where a step's time went" : "Where the time went") +
      (compared.is_per_step ? " (share of wall time x mean step)\n" : " (sum over devices)\n");
  text += fmt::format("  {:<30}{:>12}{:>12}{:>13}\n", "", "before", "after", "change");
  for (std::size_t i = 0; i < analysis::kLedgerPartCount; ++i) {
    text += change_row(kParts[i].name, compared.before_ns[i], compared.after_ns[i]);
  }
  return text +
         change_row("wall, the sum of the above", compared.wall_before_ns, compared.wall_after_ns);
}

std::string causes(const DiffInput& input, const Style& style) {
  if (input.compared.causes.empty()) return {};
  std::string text = "\n" + style.heading("Idle time by cause") + ", largest change first\n";
  for (const CauseChange& change : input.compared.causes) {
    text += change_row(analysis::row_of(change.cause).id, change.before_ns, change.after_ns);
  }
  return text;
}

std::string predictions(const DiffInput& input, const Style& style) {
  std::string text;
  for (const CauseChange& change : input.compared.causes) {
    if (!change.predicted_ns || !change.outcome) continue;
    text +=
        wrap(fmt::format(
                 "{}: at most {} was said to be saved; its idle time changed by {}: {}",
                 analysis::row_of(change.cause).id, format_duration(rounded(*change.predicted_ns)),
                 format_change(change.before_ns, change.after_ns), word_of(*change.outcome).name),
             "  ", 4);
  }
  if (text.empty()) return text;
  return "\n" + style.heading("What was predicted") +
         (input.compared.is_per_step ? " (per step)\n" : "\n") + text;
}

void write_side(std::string_view key, const DiffSide& side, JsonWriter* json) {
  json->key(key).begin_object();
  json->field("file", side.path).field("read_error", side.read_error);
  write_recording(side.info, json);
  json->field("wall_ns", side.figures.wall_ns).field("idle_ns", side.figures.idle_ns());
  json->field("kernel_count", side.figures.kernel_count);
  json->field("step_count", static_cast<std::uint64_t>(side.figures.steps_ns.size()));
  if (!side.figures.steps_ns.empty()) {
    const analysis::StepSpread spread = analysis::spread_of(side.figures.steps_ns);
    json->field("step_mean_ns", spread.mean_ns);
    json->field("step_standard_deviation_ns", spread.deviation_ns);
  }
  json->end_object();
}

void write_change(double before_ns, double after_ns, JsonWriter* json) {
  json->field("before_ns", before_ns).field("after_ns", after_ns);
  json->field("change_ns", after_ns - before_ns);
}

}  // namespace

std::string text_diff(const DiffInput& input, const Style& style) {
  return header(input, style) + "\n" + style.heading("Verdict") + "\n" + verdict(input) +
         ledger(input, style) + causes(input, style) + predictions(input, style);
}

std::string json_diff(const DiffInput& input) {
  const analysis::RunComparison& compared = input.compared;
  JsonWriter json;
  json.begin_object();
  json.field("schema", "gpuidle.diff").field("version", kVersion);
  write_side("before", input.before, &json);
  write_side("after", input.after, &json);
  json.field("unit", compared.is_per_step ? "step" : "recording");
  json.field("chance_ratio", compared.chance);
  json.key("is_significant");
  compared.chance ? json.value(*compared.chance < analysis::kSignificant) : json.null();
  json.key("wall").begin_object();
  write_change(compared.wall_before_ns, compared.wall_after_ns, &json);
  json.end_object().key("ledger").begin_object();
  for (std::size_t i = 0; i < analysis::kLedgerPartCount; ++i) {
    json.key(kParts[i].key.substr(0, kParts[i].key.size() - 3)).begin_object();
    write_change(compared.before_ns[i], compared.after_ns[i], &json);
    json.end_object();
  }
  json.end_object().key("causes").begin_array();
  for (const CauseChange& change : compared.causes) {
    json.begin_object().field("cause", analysis::row_of(change.cause).id);
    write_change(change.before_ns, change.after_ns, &json);
    json.field("predicted_saving_at_most_ns", change.predicted_ns).key("outcome");
    change.outcome ? json.value(word_of(*change.outcome).key) : json.null();
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace gpuidle::report
