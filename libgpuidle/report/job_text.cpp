// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/job_report.h"

namespace gpuidle::report {
namespace {

constexpr std::size_t kIndent = 11;

std::string row(std::string_view name, std::string_view text) {
  return wrap(text, fmt::format("{:<{}}", name, kIndent), kIndent);
}

// How far the ranks' wall clocks are apart: a job's logs and other tools go by them. Empty if fewer
// than two are recorded.
std::string wall_clocks(const JobInput& input) {
  const auto& clocks = input.ranks.clocks;
  std::size_t least = 0, most = 0;
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    if (!clocks[i].skew_ns) return {};
    if (*clocks[i].skew_ns < *clocks[least].skew_ns) least = i;
    if (*clocks[i].skew_ns > *clocks[most].skew_ns) most = i;
  }
  const auto told = [&](std::size_t index) {
    return fmt::format("{} {} (rank {})", format_duration(std::abs(*clocks[index].skew_ns)),
                       *clocks[index].skew_ns < 0 ? "behind" : "ahead", input.members[index].rank);
  };
  std::string text = fmt::format(". Against rank {} the wall clocks are ", input.members[0].rank);
  if (least == most) return text + "equal";
  if (least == 0) return text + "up to " + told(most);
  if (most == 0) return text + "up to " + told(least);
  return text + told(least) + " to " + told(most);
}

std::string header(const JobInput& input, const Style& style) {
  const model::RecordingInfo& first = input.members.front().info;
  std::string what = fmt::format("{} recordings", input.members.size());
  if (first.world_size) what += fmt::format(" of a job of {} ranks", *first.world_size);
  std::string text = row("job", what + fmt::format(", {}", first.producer));
  if (input.ranks.refusal.empty()) {
    text += row("clocks", fmt::format("aligned by the ends of {} that all ranks took part in, to "
                                      "within {}",
                                      count_of(input.ranks.matched_count, "collective"),
                                      format_duration(input.ranks.bound_ns())) +
                              wall_clocks(input));
  } else {
    text += style.warning(row("clocks", fmt::format("not aligned: {}. Who waited for whom is not "
                                                    "told; each rank's own figures stand.",
                                                    input.ranks.refusal)));
  }
  std::uint64_t lost = 0;
  for (const JobMember& member : input.members) lost += member.info.losses.total();
  text += lost == 0 ? row("lost", "nothing that is known of")
                    : style.warning(row("lost", fmt::format("{} (gpuidle report of the single "
                                                            "files says which)",
                                                            count_of(lost, "record"))));
  for (const std::string& note : input.notes) text += style.warning(row("note", note));
  for (const JobMember& member : input.members) {
    if (!member.read_error.empty()) text += style.warning(row("note", member.read_error));
  }
  return text;
}

std::string communication_verdict(const JobSums& sums) {
  const analysis::RankWaits& waits = sums.waits;
  std::string text = fmt::format(
      "For {} ({}) they did nothing but communicate: {} from the last rank's arrival "
      "on, {} waiting for a rank that came late",
      format_duration(waits.exposed_ns), format_share(waits.exposed_ns, sums.wall_ns),
      format_duration(waits.transfer_ns), format_duration(waits.waited_ns));
  if (waits.artefact_ns > 0) {
    text += fmt::format(
        ", {} for a rank whose recording began later (an artefact of the "
        "captures, no rank is to blame for it)",
        format_duration(waits.artefact_ns));
  }
  if (waits.unmatched_ns > 0) {
    text += fmt::format(", {} in collectives that not every recording holds",
                        format_duration(waits.unmatched_ns));
  }
  return wrap(text + ".", "  ", 2);
}

std::string late_reasons(const JobInput& input, const JobMember& member) {
  const auto& waits = input.ranks.waits[static_cast<std::size_t>(&member - input.members.data())];
  if (waits.reasons.empty()) {
    return wrap(
        "Its device was not idle for long before: it had more work than the others, or "
        "slower kernels.",
        "  ", 2);
  }
  std::string text = "  While others waited, its device was idle because of:\n";
  for (std::size_t i = 0; i < waits.reasons.size() && i < input.top_reasons; ++i) {
    text += wrap(reason_text(member, waits.reasons[i]),
                 fmt::format("    {:>10}  ", format_duration(waits.reasons[i].total_ns)), 16);
  }
  return text;
}

std::string verdict(const JobInput& input) {
  const JobSums sums = sums_of(input);
  std::string text =
      wrap(fmt::format("The devices of {} were idle for {} of {} ({}), summed over ranks.",
                       count_of(input.members.size(), "rank"), format_duration(sums.idle_ns),
                       format_duration(sums.wall_ns), format_share(sums.idle_ns, sums.wall_ns)),
           "  ", 2);
  if (!input.ranks.refusal.empty()) return text;
  text += communication_verdict(sums);
  bool is_in_turn = false;
  const JobMember* straggler = straggler_of(input, &is_in_turn);
  if (straggler != nullptr) {
    const auto& waits =
        input.ranks.waits[static_cast<std::size_t>(straggler - input.members.data())];
    text += wrap(fmt::format("comm.straggler: rank {} comes late to {} and makes the others wait "
                             "{} in sum, {} of all such waiting.",
                             straggler->rank, count_of(waits.late_count, "collective"),
                             format_duration(waits.caused_ns),
                             format_share(waits.caused_ns, sums.waits.caused_ns)),
                 "  ", 2);
    return text + late_reasons(input, *straggler);
  }
  if (!is_in_turn) return text + "  No rank is to blame for the others' waiting.\n";
  std::string ranks;
  for (std::size_t i = 0; i < input.members.size(); ++i) {
    const std::int64_t caused_ns = input.ranks.waits[i].caused_ns;
    if (caused_ns * 10 < sums.waits.caused_ns) continue;
    ranks += fmt::format("{}rank {} ({})", ranks.empty() ? "" : ", ", input.members[i].rank,
                         format_share(caused_ns, sums.waits.caused_ns));
  }
  return text + wrap(
                    "comm.straggler: several ranks come late in turn, none of them for half of "
                    "the waiting: " +
                        ranks +
                        ". Look for work that is uneven between ranks and "
                        "changes from step to step.",
                    "  ", 2);
}

std::string table(const JobInput& input, const Style& style) {
  std::string text = "\n" + style.heading("Ranks") + " (time of each rank's devices)\n";
  text += fmt::format("{:>5} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>12}\n", "rank", "wall",
                      "compute", "idle", "comm", "waited", "artefact", "made wait");
  for (std::size_t i = 0; i < input.members.size(); ++i) {
    const JobMember& member = input.members[i];
    const analysis::RankWaits& waits = input.ranks.waits[i];
    std::int64_t compute_ns = 0, communication_ns = 0;
    for (const analysis::DeviceIdleness& device : member.found.devices) {
      compute_ns += device.ledger.compute_ns;
      communication_ns += device.ledger.exposed_communication_ns;
    }
    const std::int64_t wall_ns = member.found.wall_ns();
    const bool is_compared = input.ranks.refusal.empty();
    const auto told = [&](std::int64_t ns) {
      return is_compared ? format_duration(ns) : std::string("-");
    };
    text += fmt::format("{:>5} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>12}\n", member.rank,
                        format_duration(wall_ns), format_share(compute_ns, wall_ns),
                        format_share(member.found.idle_ns(), wall_ns),
                        format_share(communication_ns, wall_ns), told(waits.waited_ns),
                        told(waits.artefact_ns), told(waits.caused_ns));
  }
  return text +
         wrap(
             "comm: exposed communication, which holds waited (for a late rank) and artefact "
             "(for a recording that began later); made wait: what the others waited for "
             "this rank, summed.",
             "  ", 2);
}

std::string finding_line(const JobMember& member, std::size_t index) {
  const analysis::Finding& finding = member.findings.told[index];
  const std::string& place = member.finding_places[index];
  return fmt::format("{}{}{}, costs {}", finding.is_likely ? "likely " : "",
                     analysis::row_of(finding.cause).id, place.empty() ? "" : " at " + place,
                     format_duration(finding.total_ns));
}

std::string rank_findings(const JobInput& input, const Style& style) {
  const bool is_one = input.top_findings == 1;
  std::string text =
      "\n" + style.heading(is_one ? "First finding of each rank" : "Findings of each rank") + "\n";
  for (const JobMember& member : input.members) {
    const std::size_t shown = std::min(member.findings.told.size(), input.top_findings);
    std::string number = fmt::format("{:>5}  ", member.rank);
    if (shown == 0) text += wrap("none", number, 7);
    for (std::size_t i = 0; i < shown; ++i, number.assign(7, ' ')) {
      text += wrap(finding_line(member, i), number, 7);
    }
    const std::size_t left = member.findings.told.size() - shown;
    if (left > 0 && !is_one) text += wrap("and " + count_of(left, "other finding"), number, 7);
  }
  return text +
         wrap("--top shows more of each; gpuidle report of a single file has the rest.", "  ", 2);
}

}  // namespace

std::string text_job(const JobInput& input, const Style& style) {
  return header(input, style) + "\n" + style.heading("Verdict") + "\n" + verdict(input) +
         table(input, style) + rank_findings(input, style);
}

}  // namespace gpuidle::report
