// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/text_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "libgpuidle/report/device_memory_report.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/step_report.h"
#include "libgpuidle/report/text_device_use.h"
#include "libgpuidle/report/text_findings.h"
#include "libgpuidle/report/text_header.h"
#include "libgpuidle/report/words.h"

namespace gpuidle::report {
namespace {

using analysis::DeviceIdleness;
using analysis::Gap;
using analysis::GapGroup;
using analysis::IdleSplit;

constexpr std::size_t kFramesShown = 6;

std::string ledger_row(std::string_view name, std::int64_t ns, std::int64_t wall_ns,
                       std::string_view definition) {
  return fmt::format("  {:<25}{:>10}  {:>7}  {}\n", name, format_duration(ns),
                     format_share(ns, wall_ns), definition);
}

std::string utilisation_of(const DeviceIdleness& device) {
  const auto percent = [](const std::optional<double>& ratio) {
    return ratio ? fmt::format("{:.1f} %", 100 * *ratio) : std::string("not known");
  };
  std::string text = fmt::format(
      "utilisation of the observed time: {} with any kernel (as nvidia-smi counts), {} with any "
      "operation, {} with a kernel that computes",
      percent(device.kernel_ratio()), percent(device.any_ratio()), percent(device.compute_ratio()));
  return wrap(text, "  ", 2);
}

std::string counts_of(const DeviceIdleness& device) {
  std::string text =
      fmt::format("{} ({} of them communication), {}, {}", count_of(device.kernel_count, "kernel"),
                  format_count(device.communication_count), count_of(device.copy_count, "copy"),
                  count_of(device.set_count, "set"));
  if (device.graph_count > 0) {
    text += fmt::format(", {} recorded as a whole", count_of(device.graph_count, "graph"));
  }
  if (device.without_call_count > 0) {
    text += fmt::format("; for {} the queueing call is not recorded",
                        count_of(device.without_call_count, "operation"));
  }
  return wrap(text, "  ", 2);
}

std::string surroundings_of(const DeviceIdleness& device) {
  std::string text;
  if (device.head_ns) {
    text += fmt::format("before it, since the process began: {}", format_duration(*device.head_ns));
  }
  if (device.tail_ns) {
    text += fmt::format("{}after it, until the recording ended: {}", text.empty() ? "" : "; ",
                        format_duration(*device.tail_ns));
  }
  return text.empty() ? text : wrap(text, "  ", 2);
}

std::string ledger_of(const ReportInput& input, const DeviceIdleness& device) {
  const analysis::Ledger& ledger = device.ledger;
  const std::int64_t wall_ns = ledger.wall_ns();
  const IdleSplit& idle = ledger.idle;
  const auto row_unless_zero = [wall_ns](std::string_view name, std::int64_t ns,
                                         std::string_view definition) {
    return ns == 0 ? std::string() : ledger_row(name, ns, wall_ns, definition);
  };
  std::string text = wrap(
      fmt::format("{}, {} from its first to its last {}:", device_name(input.recording, device),
                  format_duration(wall_ns),
                  input.found.is_proof_only ? "queueing or draining call" : "operation"),
      "", 2);
  if (!input.found.is_proof_only) {
    text += ledger_row("compute", ledger.compute_ns, wall_ns, "kernels, but communication");
    text += row_unless_zero("exposed communication", ledger.exposed_communication_ns,
                            "NCCL or RCCL kernels alone");
    text += row_unless_zero("exposed copy and set", ledger.exposed_copy_ns,
                            "copies or sets, no kernel");
  }
  text += ledger_row("idle", idle.total_ns(), wall_ns, "none of these, of which:");
  text += ledger_row("  H nothing queued", idle.host_ns, wall_ns, "host had not called yet");
  text += ledger_row("  A being queued", idle.call_ns, wall_ns, "host inside the call");
  text += ledger_row("  D queued, not started", idle.device_ns, wall_ns, "device had not begun");
  text += row_unless_zero("  split not known", idle.unknown_ns, "call not recorded");
  text += row_unless_zero("not observed", ledger.not_observed_ns, "neither busy nor idle");
  text += ledger_row("wall", ledger.sum_ns(), wall_ns, "the sum of the above");
  if (!input.found.is_proof_only) text += utilisation_of(device) + counts_of(device);
  return text + surroundings_of(device);
}

std::string split_of(const IdleSplit& split) {
  const std::int64_t total_ns = split.total_ns();
  std::string text =
      fmt::format("H {}, A {}, D {}", format_share(split.host_ns, total_ns),
                  format_share(split.call_ns, total_ns), format_share(split.device_ns, total_ns));
  if (split.unknown_ns > 0) text += ", not known " + format_share(split.unknown_ns, total_ns);
  return text;
}

// "the host was waiting in cudaDeviceSynchronize; next came cudaLaunchKernel"; where the time went
// after the queueing, what the host did before is not the point.
std::string origin_of(const Places& places, const Gap& gap, const IdleSplit& split) {
  const bool is_blocked = gap.opener == analysis::Opener::blocked_in && gap.blocking;
  const std::string closing = call_or_unknown(places, gap.closing ? gap.closing->api : 0);
  if (2 * split.device_ns > split.total_ns()) {
    return "the work was queued by " + closing + ", and the device had not started it";
  }
  if (!is_blocked && 2 * split.call_ns > split.total_ns()) {
    return "the host was inside " + closing + ", which queued the next work";
  }
  if (!is_blocked) return fmt::format("{} {}", word_of(gap.opener).phrase, closing);
  return fmt::format("{} {}; next came {}", word_of(gap.opener).phrase,
                     call_or_unknown(places, gap.blocking->api), closing);
}

std::string frames_of(const Place& place) {
  if (place.frames.empty()) return "       no stack was taken\n";
  // The frames from the user's line outwards; what lies inside it is the way into CUDA.
  std::size_t i = place.user_frame.value_or(0);
  std::string text;
  for (std::size_t shown = 0; i < place.frames.size() && shown < kFramesShown; ++i, ++shown) {
    text += fmt::format("       {} {}\n", shown == 0 ? "at" : "by",
                        describe(place.frames[i], kColumns - 10));
  }
  if (i < place.frames.size()) {
    text += fmt::format("       and {} further out\n", count_of(place.frames.size() - i, "frame"));
  }
  return text;
}

std::string group_text(const ReportInput& input, Places& places, const GapGroup& group,
                       std::size_t rank, const Style& style) {
  const Place place = places.of(group.stack);
  const std::string amount = fmt::format("{}  {:>7}", format_duration(group.total_ns),
                                         format_share(group.total_ns, input.found.idle_ns()));
  const std::size_t width = kColumns - 5 - amount.size() - 2;
  const std::string title = origin_title(places, group, place, width);
  std::string text = style.heading(fmt::format("{:>3}. {}", rank, title)) +
                     std::string(width + 2 - columns_of(title), ' ') + amount + "\n";
  const std::string device =
      input.found.devices.size() > 1 ? fmt::format("device {}: ", group.device) : std::string();
  text += wrap(fmt::format("{}{}, {}; {}", device, count_of(group.count, "gap"),
                           split_of(group.split), origin_of(places, group.longest, group.split)),
               "     ", 5);
  return text;
}

std::string groups_text(const ReportInput& input, Places& places, const Style& style) {
  const auto& groups = input.origins;
  if (groups.empty()) return {};
  std::string text =
      "\n" + style.heading("Where the idle time comes from") + " (time, share of all idle time)\n";
  for (std::size_t i = 0; i < groups.size() && i < input.top; ++i) {
    text += group_text(input, places, groups[i], i + 1, style);
  }
  if (groups.size() <= input.top) return text;
  std::int64_t rest_ns = 0;
  for (std::size_t i = input.top; i < groups.size(); ++i) rest_ns += groups[i].total_ns;
  return text +
         wrap(fmt::format("and {} with {}, {} of all idle time (--top shows more)",
                          count_of(groups.size() - input.top, "other place"),
                          format_duration(rest_ns), format_share(rest_ns, input.found.idle_ns())),
              "     ", 5);
}

std::string size_classes_text(const ReportInput& input, const Style& style) {
  static constexpr const char* kNames[analysis::kSizeClassCount] = {
      "micro, under 10 us", "small, 10 us to 1 ms", "large, 1 to 500 ms",
      "starvation, 500 ms and more"};
  std::string text;
  for (const DeviceIdleness& device : input.found.devices) {
    if (device.gap_count() == 0) continue;
    text += "  " + device_name(input.recording, device) + "\n";
    for (std::size_t i = 0; i < device.gaps.size(); ++i) {
      if (device.gaps[i].count == 0) continue;
      text += fmt::format("    {:<28}{:>14}{:>11}  {:>7} of its idle\n", kNames[i],
                          count_of(device.gaps[i].count, "gap"),
                          format_duration(device.gaps[i].total_ns),
                          format_share(device.gaps[i].total_ns, device.ledger.idle.total_ns()));
    }
  }
  return text.empty() ? text : "\n" + style.heading("Gaps by length") + "\n" + text;
}

std::string gap_text(const ReportInput& input, Places& places, const Gap& gap, std::size_t rank,
                     const Style& style) {
  const bool is_blocked = gap.opener == analysis::Opener::blocked_in && gap.blocking;
  const auto& site = is_blocked ? gap.blocking : gap.closing;
  std::string text =
      style.heading(fmt::format("{:>3}. {} at {}", rank, format_duration(gap.length_ns()),
                                format_moment(input, gap.start_ns))) +
      fmt::format(" on device {}; {}\n", gap.device, split_of(gap.split));
  text += wrap(fmt::format("cause: {}{}", gap.grade == analysis::Grade::c ? "likely " : "",
                           analysis::row_of(gap.cause).id),
               "     ", 5);
  text += wrap(origin_of(places, gap, gap.split), "     ", 5);
  return text + frames_of(places.of(site ? site->stack : 0));
}

std::string place_warnings(const Places& places, const Style& style) {
  std::string text;
  for (const std::string& warning : places.warnings()) {
    text += style.warning(wrap("names: " + warning, "  ", 2));
  }
  return text.empty() ? text : "\n" + text;
}

}  // namespace

bool has_no_gpu_records(const analysis::Idleness& found) { return found.devices.empty(); }

bool is_incomplete(const ReportInput& input) {
  return !input.recording.info().is_whole() || !input.read_status.ok() ||
         input.found.ignored_count > 0;
}

std::string text_report(const ReportInput& input, Places& places, const Style& style) {
  std::string text = text_header(input, style);
  text += "\n" + style.heading("Verdict") + "\n" + text_verdict(input, places);
  if (has_no_gpu_records(input.found)) return text;
  text += "\n" + style.heading("Where the time went") + "\n";
  for (const DeviceIdleness& device : input.found.devices) text += ledger_of(input, device);
  text += text_findings(input, places, style);
  text += groups_text(input, places, style);
  text += size_classes_text(input, style);
  text += text_steps(input, style);
  text += text_device_use(input, style);
  text += text_device_memory(input, style);
  return text + place_warnings(places, style);
}

std::string text_gaps(const ReportInput& input, Places& places, const Style& style) {
  std::string text = text_header(input, style);
  if (has_no_gpu_records(input.found)) {
    return text + "\n" + style.heading("Verdict") + "\n" + text_verdict(input, places);
  }
  std::uint64_t count = 0;
  for (const DeviceIdleness& device : input.found.devices) count += device.gap_count();
  text += "\n" + style.heading("Largest gaps") +
          fmt::format(" ({} in all; H nothing queued, A being queued,\nD queued but not started)\n",
                      count_of(count, "gap"));
  for (std::size_t i = 0; i < input.found.largest.size() && i < input.top; ++i) {
    text += gap_text(input, places, input.found.largest[i], i + 1, style);
  }
  return text + place_warnings(places, style);
}

}  // namespace gpuidle::report
