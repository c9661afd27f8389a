// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/text_findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "libgpuidle/report/finding_places.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/text_header.h"
#include "libgpuidle/report/words.h"

namespace gpuidle::report {
namespace {

using analysis::Cause;
using analysis::Finding;
using analysis::Grade;

constexpr std::size_t kIndent = 5;
constexpr std::size_t kFurtherLines = 2;
constexpr std::size_t kCallers = 2;

std::string paragraph(const std::string& text) {
  return wrap(text, std::string(kIndent, ' '), kIndent);
}

bool is_wait(Cause cause) {
  return cause == Cause::scalar_read || cause == Cause::explicit_sync || cause == Cause::d2h_copy ||
         cause == Cause::implicit_sync;
}

bool is_of_memory(Cause cause) {
  return cause == Cause::small_batch || cause == Cause::memory_capped;
}

// How busy each device was, and how full its memory.
std::string memory_facts_of(const ReportInput& input, const Finding& finding) {
  std::string text;
  for (const std::uint32_t ordinal : finding.devices) {
    for (const analysis::DeviceIdleness& device : input.found.devices) {
      if (device.device != ordinal || input.memory == nullptr) continue;
      for (const analysis::MemoryUse& use : *input.memory) {
        if (use.device != ordinal || !use.reserved) continue;
        text += fmt::format(
            "{}device {}: {:.1f} % of its time in kernels, {:.1f} % of its memory reserved at the "
            "peak",
            text.empty() ? "" : "; ", ordinal, 100 * device.kernel_ratio().value_or(0),
            100 * static_cast<double>(use.reserved->bytes) / static_cast<double>(use.total_bytes));
      }
    }
  }
  return text + "; its idle time is counted by the other findings";
}

bool is_of_job(const Finding& finding) { return finding.places.empty(); }

std::string cost_of(const ReportInput& input, const Finding& finding) {
  std::string text;
  if (finding.cause == Cause::device_unused) {
    for (const std::uint32_t device : finding.devices) {
      text += fmt::format("{} {}", text.empty() ? "device" : ",", device);
    }
    return text + ": visible to the program, no operation at all";
  }
  if (is_of_memory(finding.cause)) return memory_facts_of(input, finding);
  const bool is_of_life = finding.cause == Cause::startup || finding.cause == Cause::linger ||
                          finding.cause == Cause::no_gpu_work;
  text = fmt::format("costs {}, {} of {}", format_duration(finding.total_ns),
                     format_share(finding.total_ns, finding.window_ns),
                     is_of_life                       ? "the life of the process"
                     : input.found.devices.size() > 1 ? "the window of all devices"
                                                      : "the window");
  if (finding.saving_ns) {
    text += fmt::format("; removing it saves at most {}", format_duration(*finding.saving_ns));
  }
  return text;
}

std::string gap_facts_of(const ReportInput& input, const Finding& finding,
                         const std::vector<FindingLine>& lines) {
  std::string text = count_of(finding.count, "gap");
  const bool has_episodes =
      (finding.cause == Cause::checkpoint_sync || finding.cause == Cause::result_upload) &&
      finding.episode_count > 0 && finding.episode_count < finding.count;
  if (has_episodes) text += " in " + count_of(finding.episode_count, "episode");
  const analysis::Gap* longest = nullptr;
  for (const FindingLine& line : lines) {
    if (line.longest && (longest == nullptr || analysis::ranks_before(*line.longest, *longest))) {
      longest = &*line.longest;
    }
  }
  if (longest != nullptr) {
    text += fmt::format(", longest {} at {}", format_duration(longest->length_ns()),
                        format_moment(input, longest->start_ns));
  }
  return text;
}

std::string transfer_facts_of(const Finding& finding) {
  const analysis::TransferFacts& facts = *finding.transfers;
  if (finding.cause == Cause::comm_exposed) {
    return fmt::format("{} of {}, exposed {}", count_of(facts.count, "operation"),
                       format_duration(facts.total_ns), format_duration(facts.exposed_ns));
  }
  std::string text = fmt::format("{}, {:.1f} MB", count_of(facts.count, "copy"),
                                 static_cast<double>(facts.bytes) / 1e6);
  if (facts.total_ns > 0 && facts.bytes > 0) {
    text += fmt::format(" at {:.1f} GB/s",
                        static_cast<double>(facts.bytes) / static_cast<double>(facts.total_ns));
  }
  text += fmt::format(", {} of their {} beside no kernel", format_duration(facts.exposed_ns),
                      format_duration(facts.total_ns));
  if (!facts.is_source_known) text += "; pinned or pageable is not recorded";
  return text;
}

std::string facts_of(const ReportInput& input, const Finding& finding,
                     const std::vector<FindingLine>& lines) {
  std::string text(analysis::row_of(finding.cause).meaning);
  if (finding.count > 0 && !is_of_job(finding)) text += ": " + gap_facts_of(input, finding, lines);
  if (finding.transfers) {
    text += (finding.count > 0 ? "; " : ": ") + transfer_facts_of(finding);
  }
  return text;
}

// What the loader's workers did while they were waited for, if they were looked at.
std::string workers_note(const Finding& finding) {
  if (finding.cause != Cause::loader_wait && finding.cause != Cause::remote_read) return {};
  const auto* const most = std::max_element(finding.worker_ns.begin() + 1, finding.worker_ns.end());
  if (2 * *most < finding.total_ns) return {};
  static constexpr const char* kWords[analysis::kWorkerStateCount] = {
      "", "on a processor: they are CPU-bound", "waiting for the network",
      "waiting for a local disk",
      "idle themselves: the hand-over or the collating thread is the limit"};
  return paragraph(fmt::format("meanwhile the child processes were mostly {}",
                               kWords[most - finding.worker_ns.begin()]));
}

// Where the host is slower than the device, not waiting helps little.
std::string host_bound_note(const Finding& finding) {
  if (!is_wait(finding.cause) || !finding.saving_ns || finding.count == 0 ||
      2 * *finding.saving_ns >= finding.total_ns) {
    return {};
  }
  const auto per_gap_ns = finding.split.host_ns / static_cast<std::int64_t>(finding.count);
  return paragraph(fmt::format(
      "host-bound: after each wait the host needs {} before it queues more, longer than the "
      "device computes; without the wait most of the gap stays",
      format_duration(per_gap_ns)));
}

// Where the copies take longer than all kernels, hiding them helps little.
std::string copy_bound_note(const Finding& finding) {
  const bool is_hidden_copy =
      finding.cause == Cause::h2d_blocking || finding.cause == Cause::copy_engine;
  if (!is_hidden_copy || !finding.saving_ns || 2 * *finding.saving_ns >= finding.total_ns) {
    return {};
  }
  return paragraph(
      "copy-bound: the kernels take less time than these copies and cannot hide them; to gain "
      "more, "
      "copy less: keep on the device what is copied again and again (offloaded weights)");
}

std::string callers_of(const FindingLine& line) {
  std::string text;
  if (!line.place.user_frame) return text;
  std::size_t shown = 0;
  for (std::size_t i = *line.place.user_frame + 1; i < line.place.frames.size() && shown < kCallers;
       ++i, ++shown) {
    text += fmt::format("       by {}\n", describe(line.place.frames[i], kColumns - 10));
  }
  return text;
}

std::string further_lines(const std::vector<FindingLine>& lines, const Places& places) {
  std::string text;
  for (std::size_t i = 1; i < lines.size() && i <= kFurtherLines; ++i) {
    const std::string amount = format_duration(lines[i].total_ns);
    text += fmt::format("     also {:>9} at {}\n", amount,
                        lines[i].title(places, kColumns - kIndent - 18));
  }
  if (lines.size() > kFurtherLines + 1) {
    std::int64_t rest_ns = 0;
    for (std::size_t i = kFurtherLines + 1; i < lines.size(); ++i) rest_ns += lines[i].total_ns;
    text += fmt::format("     and  {:>9} at {}\n", format_duration(rest_ns),
                        count_of(lines.size() - kFurtherLines - 1, "other place"));
  }
  return text;
}

std::string finding_text(const ReportInput& input, Places& places, const Finding& finding,
                         std::size_t rank, const Style& style) {
  const std::vector<FindingLine> lines = lines_of(finding, places);
  std::string title = fmt::format("{:>3}. {}{}", rank, finding.is_likely ? "likely " : "",
                                  analysis::row_of(finding.cause).id);
  if (!lines.empty()) {
    title += " at ";
    title += lines.front().title(places, kColumns - title.size());
  }
  std::string text = style.heading(title) + "\n";
  if (!lines.empty()) text += callers_of(lines.front());
  const bool has_band = !is_of_memory(finding.cause);
  text += paragraph(cost_of(input, finding) + (finding.is_high || !has_band ? "" : " (moderate)"));
  text += paragraph(facts_of(input, finding, lines));
  text += workers_note(finding) + host_bound_note(finding) + copy_bound_note(finding);
  text += further_lines(lines, places);
  text += paragraph("fix: " + fix_of(finding, lines));
  return text + paragraph("evidence: " + evidence_of(finding));
}

std::string set_aside_text(const ReportInput& input) {
  std::string text;
  for (const Finding& finding : input.findings.set_aside) {
    text += fmt::format("{}{} ({}, {})", text.empty() ? "left aside until then: " : ", ",
                        analysis::row_of(finding.cause).id, format_duration(finding.total_ns),
                        format_share(finding.total_ns, finding.window_ns));
  }
  return text.empty() ? text : wrap(text, "  ", 2);
}

std::string combined_text(const ReportInput& input) {
  const auto counted =
      std::count_if(input.findings.told.begin(), input.findings.told.end(),
                    [](const Finding& f) { return f.saving_ns.value_or(0) > 0 && !is_of_job(f); });
  if (counted < 2) return {};
  return wrap(fmt::format("All of them together save at most {}.",
                          format_duration(input.findings.combined_saving_ns)),
              "  ", 2);
}

}  // namespace

std::string evidence_of(const Finding& finding) {
  const bool is_transfer = finding.transfers && finding.count == 0;
  if (is_of_memory(finding.cause)) {
    return "grade B: utilisation and memory are recorded; that they mean this is a rule of thumb";
  }
  if (is_of_job(finding)) return "grade A: times and devices of the process itself";
  if (finding.cause == Cause::comm_exposed) {
    return "grade C: one rank alone; it may be waiting for a late peer (a straggler)";
  }
  if (finding.cause == Cause::unknown) {
    const analysis::IdleSplit& split = finding.split;
    if (2 * split.unknown_ns >= split.total_ns()) {
      return "missing: the calls that queued the next work are not recorded";
    }
    if (2 * split.device_ns >= split.total_ns()) {
      return "missing: work was queued in time, but what it waited for is not recorded";
    }
    return "missing: no call stack was taken where these gaps end";
  }
  switch (finding.grade) {
    case Grade::a:
      return is_transfer ? "grade A: the device's own records of these operations"
                         : "grade A: calls, named ranges or samples cover the time itself";
    case Grade::b:
      return "grade B: what is recorded at both edges of the gaps agrees";
    case Grade::c:
      break;
  }
  return "grade C: names at one edge of the gaps only; what the host did inside was not sampled";
}

std::string first_finding(const ReportInput& input, Places& places) {
  if (input.findings.told.empty()) return {};
  const Finding& finding = input.findings.told.front();
  const std::vector<FindingLine> lines = lines_of(finding, places);
  std::string text = fmt::format("First: {}{}", finding.is_likely ? "likely " : "",
                                 analysis::row_of(finding.cause).id);
  if (!lines.empty()) text += " at " + lines.front().title(places, 60);
  if (finding.saving_ns && *finding.saving_ns > 0) {
    text += fmt::format(", worth at most {}", format_duration(*finding.saving_ns));
  }
  return wrap(text + ".", "  ", 2);
}

std::string text_findings(const ReportInput& input, Places& places, const Style& style) {
  const std::vector<Finding>& told = input.findings.told;
  if (told.empty()) return {};
  std::string text = "\n" + style.heading("Findings") + " (what is lost to what, and where)\n";
  for (std::size_t i = 0; i < told.size() && i < input.top; ++i) {
    text += finding_text(input, places, told[i], i + 1, style);
  }
  if (told.size() > input.top) {
    text += wrap(fmt::format("and {} (--top shows more)",
                             count_of(told.size() - input.top, "other finding")),
                 "  ", 2);
  }
  return text + combined_text(input) + set_aside_text(input);
}

}  // namespace gpuidle::report
