// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/report/finding_places.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "libgpuidle/report/format.h"

namespace gpuidle::report {
namespace {

constexpr std::size_t kShortName = 40;

}  // namespace

std::string FindingLine::title(const Places& places, std::size_t width) const {
  if (place.user_frame) return describe(place.frames[*place.user_frame], width);
  const std::string_view call = places.api_name(api);
  std::string text = call.empty() ? "a call that is not recorded" : std::string(call);
  if (!place.frames.empty()) text += " in " + place.frames.front().function;
  return elide(text, width);
}

std::string FindingLine::short_name() const {
  if (!place.user_frame) return "that place";
  const symbols::ResolvedFrame& frame = place.frames[*place.user_frame];
  if (frame.file.empty()) return elide(frame.function, kShortName);
  std::string line(base_name(frame.file));
  if (frame.line != 0) line += ":" + std::to_string(frame.line);
  return elide_front(line, kShortName);
}

std::vector<FindingLine> lines_of(const analysis::Finding& finding, Places& places) {
  using Line = std::tuple<model::ApiId, std::string, model::StackId>;
  GapSites sites(&places);
  for (const analysis::FindingPlace& row : finding.places) sites.note(row.stack, row.longest);
  std::vector<FindingLine> lines;
  std::map<Line, std::size_t> position;
  for (const analysis::FindingPlace& row : finding.places) {  // costliest first
    Place place = places.of(row.stack);
    const std::string site = sites.site_of(row.stack, row.longest);
    const Line key = site.empty() ? Line{row.api, "", row.stack} : Line{0, site, 0};
    const auto [at, is_new] = position.emplace(key, lines.size());
    if (is_new) {
      lines.push_back(
          {std::move(place), row.api, row.count, row.total_ns, row.removable_ns, row.longest});
      continue;
    }
    FindingLine& line = lines[at->second];
    const bool is_better =
        row.longest && row.longest->inside != 0 && !(line.longest && line.longest->inside != 0);
    if (is_better) line.place = std::move(place);
    line.count += row.count;
    line.total_ns += row.total_ns;
    line.removable_ns += row.removable_ns;
    if (row.longest && (!line.longest || analysis::ranks_before(*row.longest, *line.longest))) {
      line.longest = row.longest;
    }
  }
  std::stable_sort(lines.begin(), lines.end(), [](const FindingLine& a, const FindingLine& b) {
    return a.total_ns > b.total_ns;
  });
  return lines;
}

std::string fix_of(const analysis::Finding& finding, const std::vector<FindingLine>& lines) {
  constexpr std::string_view kMark = "{line}";
  std::string text(analysis::row_of(finding.cause).fix);
  const std::string name = lines.empty() ? "that place" : lines.front().short_name();
  for (std::size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at)) {
    text.replace(at, kMark.size(), name);
    at += name.size();
  }
  return text;
}

}  // namespace gpuidle::report
