// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/job_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "libgpuidle/analysis/collectives.h"
#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/finding_places.h"
#include "libgpuidle/report/format.h"
#include "libgpuidle/report/job_report.h"
#include "libgpuidle/symbols/demangle.h"
#include "tools/gpuidle/command.h"
#include "tools/gpuidle/progress_line.h"

namespace gpuidle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPlaceColumns = 58;

struct Job {
  std::vector<report::JobMember> members;
  std::vector<analysis::RankTrack> tracks;
  std::vector<std::string> notes;
  std::size_t other_files = 0;  // in folders, no recordings
  std::size_t without_gpu = 0;  // recordings without a GPU record
};

struct NamedFile {
  std::string path;
  bool is_from_folder = false;
};

// A folder stands for the files in it, by name.
base::Result<std::vector<NamedFile>> files_of(const std::vector<std::string>& paths) {
  std::vector<NamedFile> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back({path, false});
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      if (at->is_regular_file(error)) inside.push_back(at->path().string());
    }
    if (error) {
      return base::Status{base::StatusCode::io_error,
                          fmt::format("cannot list the directory {}: {}", path, error.message())};
    }
    std::sort(inside.begin(), inside.end());
    for (std::string& file : inside) files.push_back({std::move(file), true});
  }
  return files;
}

std::string title_of(model::StackId stack, report::Places& places) {
  const report::Place place = places.of(stack);
  if (place.frames.empty()) return {};
  return report::describe(place.frames[place.user_frame.value_or(0)], kPlaceColumns);
}

analysis::RankTrack track_of(const model::Recording& recording, analysis::CollectiveMeter* meter) {
  analysis::RankTrack track;
  track.realtime_offset_ns = recording.info().realtime_offset_ns;
  track.recording_start_ns = recording.info().recording_start_ns;
  for (const analysis::Collective& one : meter->collectives) {
    track.names.push_back(symbols::demangle(recording.tables().string(one.name)));
  }
  track.collectives = std::move(meter->collectives);
  track.gaps = std::move(meter->gaps);
  return track;
}

base::Status add_recording(const std::string& path, report::FrameView frames, Job* job) {
  ProgressLine progress("reading " + path);
  base::Result<std::unique_ptr<model::Recording>> opened = import::open_recording(path);
  if (!opened.ok()) return opened.status();
  const std::unique_ptr<model::Recording> recording = opened.take();
  progress.follow(recording->info());
  report::Places places(recording->tables(), frames);
  analysis::CollectiveMeter meter(*recording);
  analysis::Options options;
  options.largest_gaps = 0;
  options.names = &places;
  options.gaps = &meter;
  options.also = {&meter, &progress};
  report::JobMember member;
  member.path = path;
  const base::Status read = analysis::analyze(*recording, options, &member.found);
  meter.finish();
  if (member.found.devices.empty()) {
    ++job->without_gpu;
    return {};
  }
  if (!read.ok()) member.read_error = read.message();
  if (meter.is_cut) {
    job->notes.push_back(fmt::format("{}: only its first {} collectives are compared", path,
                                     report::format_count(meter.kMaxCollectives)));
  }
  member.info = recording->info();
  member.findings = analysis::find_causes(*recording, member.found, {});
  for (const analysis::Finding& finding : member.findings.told) {
    const auto lines = report::lines_of(finding, places);
    member.finding_places.push_back(lines.empty() ? std::string()
                                                  : lines.front().title(places, kPlaceColumns));
  }
  for (const analysis::RankGap& gap : meter.gaps) {
    if (gap.stack == 0 || member.places.count(gap.stack) > 0) continue;
    member.places.emplace(gap.stack, title_of(gap.stack, places));
  }
  job->tracks.push_back(track_of(*recording, &meter));
  job->members.push_back(std::move(member));
  return {};
}

// True if every recording has a rank of its own; then they are sorted by it.
bool number_ranks(Job* job) {
  std::set<std::int32_t> ranks;
  for (const report::JobMember& member : job->members) {
    if (member.info.rank) ranks.insert(*member.info.rank);
  }
  const bool is_known = ranks.size() == job->members.size();
  std::vector<std::size_t> order(job->members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (is_known) {
    std::sort(order.begin(), order.end(), [job](std::size_t a, std::size_t b) {
      return *job->members[a].info.rank < *job->members[b].info.rank;
    });
  }
  Job sorted;
  for (const std::size_t at : order) {
    sorted.members.push_back(std::move(job->members[at]));
    sorted.tracks.push_back(std::move(job->tracks[at]));
    const auto number = static_cast<std::int32_t>(sorted.members.size() - 1);
    sorted.members.back().rank = is_known ? *sorted.members.back().info.rank : number;
    sorted.tracks.back().rank = sorted.members.back().rank;
  }
  job->members = std::move(sorted.members);
  job->tracks = std::move(sorted.tracks);
  return is_known;
}

void add_notes(bool is_known, Job* job) {
  if (!is_known) {
    job->notes.emplace_back(
        "not every recording names a rank of its own: they are numbered in the order of the files");
  }
  const auto& world_size = job->members.front().info.world_size;
  if (is_known && world_size && static_cast<std::size_t>(*world_size) > job->members.size()) {
    job->notes.push_back(
        fmt::format("{} of {} ranks are here: a rank that is missing may be the late one",
                    job->members.size(), *world_size));
  }
  if (job->other_files > 0) {
    job->notes.push_back(
        fmt::format("{} left out: no recordings", report::count_of(job->other_files, "file")));
  }
  if (job->without_gpu > 0) {
    job->notes.push_back(fmt::format("{} left out: nothing about a GPU in them",
                                     report::count_of(job->without_gpu, "recording")));
  }
}

int print_job(const RecordingView& view, const report::JobInput& input) {
  const std::string shown = view.is_json
                                ? report::json_job(input)
                                : report::text_job(input, report::Style(wants_color(view)));
  if (const base::Status printed = print(shown, "the report"); !printed.ok()) return fail(printed);
  const bool is_incomplete =
      std::any_of(input.members.begin(), input.members.end(), [](const report::JobMember& member) {
        return !member.info.is_whole() || !member.read_error.empty() ||
               member.found.ignored_count > 0;
      });
  return view.is_strict && is_incomplete ? kIncomplete : kDone;
}

}  // namespace

bool is_job(const std::vector<std::string>& paths) {
  std::error_code error;
  return paths.size() > 1 || (!paths.empty() && fs::is_directory(paths.front(), error));
}

int show_job(const RecordingView& view) {
  base::Result<std::vector<NamedFile>> listed = files_of(view.paths);
  if (!listed.ok()) return fail(listed.status());
  Job job;
  for (const NamedFile& file : listed.value()) {
    const base::Status status = add_recording(file.path, view.frames.view(), &job);
    if (status.ok()) continue;
    if (!file.is_from_folder || status.code() != base::StatusCode::wrong_format) {
      return fail(status);
    }
    ++job.other_files;
  }
  if (job.members.empty()) {
    if (job.without_gpu > 0) {
      std::fprintf(stderr, "gpuidle: %s: none of the recordings says anything about a GPU\n",
                   view.paths.front().c_str());
      return kNoGpuRecords;
    }
    return fail({base::StatusCode::not_found,
                 fmt::format("{}: no recording in this directory", view.paths.front())});
  }
  const bool is_known = number_ranks(&job);
  add_notes(is_known, &job);
  const analysis::JobRanks ranks = analysis::compare_ranks(job.tracks);
  report::JobInput input{job.members, ranks, is_known, job.notes};
  if (view.is_top_given) input.top_findings = input.top_reasons = view.top;
  return print_job(view, input);
}

}  // namespace gpuidle::cli
