// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/text_header.h"

#include <fmt/format.h>

#include <algorithm>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/text_findings.h"
#include "libgpuidle/report/words.h"

namespace gpuidle::report {
namespace {

constexpr std::size_t kIndent = 11;

std::string row(std::string_view name, std::string_view text) {
  return wrap(text, fmt::format("{:<{}}", name, kIndent), kIndent);
}

std::string program_of(const model::RecordingInfo& info) {
  std::string text;
  for (const std::string& word : info.command) text += (text.empty() ? "" : " ") + word;
  if (text.empty()) text = info.program;
  if (text.empty()) text = "not named in the recording";
  text = elide(text, 3 * (kColumns - kIndent));
  if (info.pid != 0) text += fmt::format(", process {}", info.pid);
  if (!info.host_name.empty()) text += ", on " + elide(info.host_name, 40);
  if (info.rank) text += fmt::format(", rank {}", *info.rank);
  if (info.rank && info.world_size) text += fmt::format(" of {}", *info.world_size);
  return text;
}

std::string losses_of(const ReportInput& input, const Style& style) {
  const model::Losses& losses = input.recording.info().losses;
  std::string text;
  for (std::size_t i = 0; i < losses.count.size(); ++i) {
    if (losses.count[i] == 0) continue;
    text += row(text.empty() ? "lost" : "",
                fmt::format("{} {}", format_count(losses.count[i]),
                            word_of(static_cast<model::LossReason>(i)).phrase));
  }
  if (input.found.ignored_count > 0) {
    text += row(text.empty() ? "lost" : "",
                fmt::format("{} device records of unknown kind or out of order: left out",
                            format_count(input.found.ignored_count)));
  }
  return text.empty() ? row("lost", "nothing that is known of") : style.warning(text);
}

bool is_hardly_idle(const analysis::DeviceIdleness& device) {
  return device.ledger.idle.total_ns() * 20 < device.ledger.wall_ns();
}

// The share of idle time that speaks loudest, in words.
std::string main_part_of(const analysis::IdleSplit& idle) {
  struct Part {
    std::int64_t ns;
    const char* words;
  };
  const Part parts[] = {
      {idle.host_ns, "nothing was queued: the host had not called for more work"},
      {idle.call_ns, "the host was inside the call that queues the next work"},
      {idle.device_ns, "work was queued, but the device had not started it"},
      {idle.unknown_ns, "it cannot be told which: the queueing call is not recorded"}};
  const Part& largest = *std::max_element(std::begin(parts), std::end(parts),
                                          [](const Part& a, const Part& b) { return a.ns < b.ns; });
  return fmt::format("For {} of that, {}.", format_share(largest.ns, idle.total_ns()),
                     largest.words);
}

// A device that is kept busy without computing has a reason to be looked at as well.
std::string exposed_part_of(const analysis::Ledger& ledger) {
  const std::int64_t exposed_ns = ledger.exposed_copy_ns + ledger.exposed_communication_ns;
  if (2 * exposed_ns < ledger.wall_ns() || exposed_ns == 0) return {};
  return fmt::format(
      " But it computed for only {}: for {} nothing but {} ran.",
      format_share(ledger.compute_ns, ledger.wall_ns()), format_share(exposed_ns, ledger.wall_ns()),
      ledger.exposed_copy_ns > ledger.exposed_communication_ns ? "copies" : "communication");
}

std::string verdict_of(const ReportInput& input, const analysis::DeviceIdleness& device) {
  const analysis::Ledger& ledger = device.ledger;
  const std::int64_t idle_ns = ledger.idle.total_ns();
  const std::string who = device_name(input.recording, device);
  const std::string amount =
      fmt::format("{} of {} ({})", format_duration(idle_ns), format_duration(ledger.wall_ns()),
                  format_share(idle_ns, ledger.wall_ns()));
  std::string text;
  if (input.found.is_proof_only) {
    text = fmt::format(
        "Of {}, at least {} ({}) are proven idle for {}; about the other {} the recording says "
        "nothing.",
        format_duration(ledger.wall_ns()), format_duration(idle_ns),
        format_share(idle_ns, ledger.wall_ns()), who, format_duration(ledger.not_observed_ns));
  } else if (is_hardly_idle(device)) {
    text = input.findings.told.empty()
               ? fmt::format("GPU is not idle: {} did nothing for {}.", who, amount)
               : fmt::format("{} is hardly idle: {}.", who, amount);
    text += exposed_part_of(ledger);
  } else {
    text = fmt::format("{} was idle for {}. {}", who, amount, main_part_of(ledger.idle));
  }
  text[0] = static_cast<char>(text[0] == 'd' ? 'D' : text[0]);
  if (!input.found.is_proof_only && device.graph_count == 0 &&
      device.kernel_count < analysis::kEnoughKernels) {
    text += fmt::format(" Too short to judge: {}, fewer than {}.",
                        count_of(device.kernel_count, "kernel"), analysis::kEnoughKernels);
  }
  return wrap(text, "  ", 2);
}

// What else there is to know before the findings are read.
std::string cautions_of(const ReportInput& input) {
  std::string text;
  if (input.findings.warm_up_ns > 0) {
    text += wrap(fmt::format("Its first {} were warm-up (code loaded, memory allocated); the {} "
                             "that were idle in it are in the ledger, not in the findings.",
                             format_duration(input.findings.warm_up_ns),
                             format_duration(input.findings.warm_up_idle_ns)),
                 "  ", 2);
  }
  std::int64_t profiler_ns = 0;
  std::uint64_t full_count = 0;
  std::int64_t full_ns = 0;
  for (const analysis::DeviceIdleness& device : input.found.devices) {
    profiler_ns += device.profiler_ns;
    full_count += device.full_queue_count;
    full_ns += device.full_queue_ns;
  }
  if (profiler_ns * 100 >= input.found.wall_ns()) {
    text += wrap(
        fmt::format(
            "The profiler's own work fell into {} of the idle time{}.",
            format_duration(profiler_ns),
            profiler_ns * 10 > input.found.wall_ns() ? ": shares of the window say little" : ""),
        "  ", 2);
  }
  if (input.found.lost_launch_count > 0) {
    text += wrap(fmt::format("The device records of {} are lost: where the device may have done "
                             "their work, it is neither idle nor busy but not observed.",
                             count_of(input.found.lost_launch_count, "launch call")),
                 "  ", 2);
  }
  if (full_count > 0) {
    text += wrap(fmt::format("{} waited {} in all for room in the queue of a busy device: it was "
                             "fed ahead, which is well.",
                             count_of(full_count, "launch call"), format_duration(full_ns)),
                 "  ", 2);
  }
  return text;
}

std::string no_records_verdict(const ReportInput& input) {
  const model::RecordingInfo& info = input.recording.info();
  const std::uint64_t launches = std::max(info.launch_calls, input.found.enqueue_count);
  std::string text = "No GPU records: ";
  if (info.detail_level == "gaps") {
    text +=
        "this recording keeps idle gaps only, and this report needs every operation. Record with "
        "detail level full.";
  } else if (launches > 0) {
    text += fmt::format(
        "the program made {} that put work on a GPU, but what the GPU did is not in this "
        "recording. Nothing can be said about how idle it was.",
        count_of(launches, "call"));
  } else {
    text += "neither GPU work nor calls that ask for it are in this recording.";
  }
  if (info.source == model::Source::imported) {
    text += " Record again with CUDA activity switched on.";
  }
  return wrap(text, "  ", 2);
}

// Where to look although no cause costs enough to be told.
std::string first_place(const ReportInput& input, Places& places) {
  const analysis::GapGroup& group = input.origins.front();
  const Place place = places.of(group.stack);
  return wrap(fmt::format("No single cause costs enough to be told; most of it, {}, comes from {}.",
                          format_share(group.total_ns, input.found.idle_ns()),
                          origin_title(places, group, place, 60)),
              "  ", 2);
}

}  // namespace

std::string call_or_unknown(const Places& places, model::ApiId api) {
  const std::string_view name = places.api_name(api);
  return name.empty() ? "a call that is not recorded" : elide(name, 60);
}

std::string origin_title(const Places& places, const analysis::GapGroup& group, const Place& place,
                         std::size_t width) {
  if (place.user_frame) return describe(place.frames[*place.user_frame], width);
  std::string title = call_or_unknown(places, group.api);
  if (!place.frames.empty()) title += " in " + place.frames.front().function;
  return elide(title, width);
}

std::string device_name(const model::Recording& recording, const analysis::DeviceIdleness& device) {
  if (!device.is_device_known) return "the device (which one is not known)";
  for (const model::Device& row : recording.tables().devices()) {
    if (row.ordinal == device.device && row.name != 0) {
      return fmt::format("device {} ({})", device.device,
                         elide(recording.tables().string(row.name), 32));
    }
  }
  return fmt::format("device {}", device.device);
}

std::string format_moment(const ReportInput& input, std::int64_t at_ns) {
  const model::RecordingInfo& info = input.recording.info();
  std::int64_t origin_ns = 0;
  if (info.recording_start_ns) {
    origin_ns = *info.recording_start_ns;
  } else if (!input.found.devices.empty()) {
    origin_ns = input.found.devices.front().ledger.start_ns;
    for (const auto& device : input.found.devices) {
      origin_ns = std::min(origin_ns, device.ledger.start_ns);
    }
  }
  const std::int64_t since_ns = at_ns - origin_ns;
  return (since_ns < 0 ? "" : "+") + format_duration(since_ns);
}

std::string text_header(const ReportInput& input, const Style& style) {
  const model::RecordingInfo& info = input.recording.info();
  std::string text = row("program", program_of(info));
  std::string source(word_of(info.source).phrase);
  if (!info.producer.empty()) source += fmt::format(" ({})", elide(info.producer, 60));
  text += row("source", source);
  if (!info.source_reason.empty()) text += row("reason", elide(info.source_reason, 400));
  text += row("ended", word_of(info.end).phrase);
  text += losses_of(input, style);
  for (const std::string& warning : info.warnings) {
    text += style.warning(row("warning", elide(warning, 400)));
  }
  if (!input.read_status.ok()) {
    text += style.warning(
        row("warning", "only a part could be read: " + elide(input.read_status.message(), 400)));
  }
  return text;
}

std::string text_verdict(const ReportInput& input, Places& places) {
  if (has_no_gpu_records(input.found)) {
    return no_records_verdict(input) + first_finding(input, places);
  }
  std::string text;
  bool is_idle = false;
  for (const analysis::DeviceIdleness& device : input.found.devices) {
    text += verdict_of(input, device);
    is_idle |= !is_hardly_idle(device);
  }
  text += first_finding(input, places);
  if (input.findings.told.empty() && is_idle && !input.origins.empty()) {
    text += first_place(input, places);
  }
  return text + cautions_of(input);
}

}  // namespace gpuidle::report
