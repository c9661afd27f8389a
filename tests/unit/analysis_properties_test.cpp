// SPDX-License-Identifier: Apache-2.0
//
// What must hold of every recording, tried on random ones and on the real ones of tests/golden: the
// order and the slices in which records come show in no figure, a cut loses and adds nothing, and
// without stacks the figures of the ledger stay.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>

#include "libgpuidle/analysis/findings.h"
#include "libgpuidle/import/open_recording.h"
#include "libgpuidle/report/json_report.h"
#include "libgpuidle/report/places.h"
#include "tests/unit/random_recording.h"

using namespace gpuidle;
using tests::fill_randomly;
using tests::LedgerRecording;

namespace {

const std::filesystem::path kGolden = GPUIDLE_GOLDEN;
const std::filesystem::path kShared = std::filesystem::path(GPUIDLE_SHARED_DATA) / "traces";
constexpr std::uintmax_t kLargestFileBytes = 300'000;

// Everything that a recording holds, in one slice.
class Collector : public model::SliceVisitor {
 public:
  model::Slice all;
  void on_slice(const model::Slice& slice) override {
    const auto append = [](auto* to, const auto& from) {
      to->insert(to->end(), from.begin(), from.end());
    };
    append(&all.activities, slice.activities);
    append(&all.calls, slice.calls);
    append(&all.markers, slice.markers);
    append(&all.overheads, slice.overheads);
    append(&all.unobserved, slice.unobserved);
    append(&all.gaps, slice.gaps);
  }
};

model::Slice records_of(const model::Recording& recording) {
  Collector collector;
  REQUIRE(recording.visit(collector).ok());
  return collector.all;
}

// Another recording's records after a change, under that recording's tables and facts.
class Changed : public model::Recording {
 public:
  Changed(const model::Recording& from, model::Slice records) {
    inner_.mutable_tables() = from.tables();
    inner_.mutable_info() = from.info();
    tables_ = from.tables();
    info_ = from.info();
    inner_.records = std::move(records);
    inner_.seal();
  }
  base::Status visit(model::SliceVisitor& visitor) const override { return inner_.visit(visitor); }

 private:
  model::MemoryRecording inner_;
};

// Delivers a recording in slices that end where it is told, with the lead of calls that is
// promised.
class Resliced : public model::Recording {
 public:
  Resliced(const model::Recording& from, std::vector<std::int64_t> ends_ns)
      : all_(records_of(from)), ends_ns_(std::move(ends_ns)) {
    tables_ = from.tables();
    info_ = from.info();
    all_.sort();
    std::sort(ends_ns_.begin(), ends_ns_.end());
    ends_ns_.erase(std::unique(ends_ns_.begin(), ends_ns_.end()), ends_ns_.end());
    ends_ns_.push_back(std::numeric_limits<std::int64_t>::max());
  }
  base::Status visit(model::SliceVisitor& visitor) const override {
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::min(), calls_from_ns = begin_ns;
    for (const std::int64_t end_ns : ends_ns_) {
      const bool is_last = end_ns == ends_ns_.back();
      const std::int64_t calls_until_ns = is_last ? end_ns : end_ns + model::kCallLead_ns;
      model::Slice slice;
      slice.begin_ns = begin_ns;
      slice.end_ns = end_ns;
      const auto copy = [&](const auto& from, auto* to) {
        for (const auto& row : from) {
          if (row.start_ns >= begin_ns && row.start_ns < end_ns) to->push_back(row);
        }
      };
      copy(all_.activities, &slice.activities);
      copy(all_.markers, &slice.markers);
      copy(all_.overheads, &slice.overheads);
      copy(all_.unobserved, &slice.unobserved);
      copy(all_.gaps, &slice.gaps);
      for (const model::ApiCall& call : all_.calls) {
        if (call.enter_ns >= calls_from_ns && call.enter_ns < calls_until_ns) {
          slice.calls.push_back(call);
        }
      }
      visitor.on_slice(slice);
      begin_ns = end_ns;
      calls_from_ns = calls_until_ns;
    }
    return {};
  }

 private:
  model::Slice all_;
  std::vector<std::int64_t> ends_ns_;
};

analysis::Idleness analyzed(const model::Recording& recording) {
  report::Places places(recording.tables());
  analysis::Options options;
  options.names = &places;
  options.largest_gaps = 1000;
  analysis::Idleness found;
  REQUIRE(analysis::analyze(recording, options, &found).ok());
  return found;
}

// All that a report says.
std::string told(const model::Recording& recording) {
  report::Places places(recording.tables());
  const analysis::Idleness found = analyzed(recording);
  const analysis::Findings findings = analysis::find_causes(recording, found, {});
  const auto origins = report::joined_by_line(found.groups, places);
  const base::Status status;
  return report::json_report({recording, found, findings, origins, status, 1000}, places);
}

void for_each_recording(const std::function<void(const model::Recording&, std::mt19937*)>& check) {
  std::mt19937 random(20);
  for (int round = 0; round < 60; ++round) {
    INFO("random recording " << round);
    LedgerRecording recording;
    fill_randomly(&recording, &random);
    recording.seal();
    check(recording, &random);
  }
  int real_count = 0;
  for (const std::filesystem::path& root : {kGolden, kShared}) {
    if (!std::filesystem::exists(root)) continue;  // the shared ones come on top
    for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
      if (!file.is_regular_file() || file.file_size() > kLargestFileBytes) continue;
      const auto opened = import::open_recording(file.path().string());
      if (!opened.ok()) continue;
      INFO(file.path());
      ++real_count;
      check(*opened.value(), &random);
    }
  }
  CHECK(real_count >= 5);
}

void require_same_splits(const analysis::Idleness& a, const analysis::Idleness& b) {
  REQUIRE(a.devices.size() == b.devices.size());
  for (std::size_t i = 0; i < a.devices.size(); ++i) {
    const analysis::Ledger &left = a.devices[i].ledger, &right = b.devices[i].ledger;
    REQUIRE(left.wall_ns() == right.wall_ns());
    REQUIRE(left.compute_ns == right.compute_ns);
    REQUIRE(left.exposed_copy_ns == right.exposed_copy_ns);
    REQUIRE(left.exposed_communication_ns == right.exposed_communication_ns);
    REQUIRE(left.not_observed_ns == right.not_observed_ns);
    REQUIRE(left.idle.host_ns == right.idle.host_ns);
    REQUIRE(left.idle.call_ns == right.idle.call_ns);
    REQUIRE(left.idle.device_ns == right.idle.device_ns);
    REQUIRE(left.idle.unknown_ns == right.idle.unknown_ns);
  }
}

}  // namespace

TEST_CASE("the order of the records changes nothing that is told", "[analysis][unit]") {
  for_each_recording([](const model::Recording& recording, std::mt19937* random) {
    model::Slice records = records_of(recording);
    std::shuffle(records.activities.begin(), records.activities.end(), *random);
    std::shuffle(records.calls.begin(), records.calls.end(), *random);
    std::shuffle(records.markers.begin(), records.markers.end(), *random);
    std::shuffle(records.overheads.begin(), records.overheads.end(), *random);
    std::shuffle(records.unobserved.begin(), records.unobserved.end(), *random);
    REQUIRE(told(Changed(recording, std::move(records))) == told(recording));
  });
}

TEST_CASE("how a recording is cut into slices changes nothing that is told", "[analysis][unit]") {
  for_each_recording([](const model::Recording& recording, std::mt19937* random) {
    const model::Slice records = records_of(recording);
    std::vector<std::int64_t> ends_ns;
    for (const model::DeviceActivity& op : records.activities) {
      if ((*random)() % 7 == 0) ends_ns.push_back(op.start_ns + static_cast<int>((*random)() % 3));
      if (ends_ns.size() == 40) break;
    }
    REQUIRE(told(Resliced(recording, ends_ns)) == told(recording));
  });
}

TEST_CASE("without stacks and markers the figures of the ledger are the same", "[analysis][unit]") {
  for_each_recording([](const model::Recording& recording, std::mt19937*) {
    model::Slice records = records_of(recording);
    for (model::ApiCall& call : records.calls) call.stack = 0;
    records.markers.clear();
    require_same_splits(analyzed(Changed(recording, std::move(records))), analyzed(recording));
  });
}

TEST_CASE("the parts before and after an idle gap add up to the whole", "[analysis][unit]") {
  for_each_recording([](const model::Recording& recording, std::mt19937* random) {
    const analysis::Idleness whole = analyzed(recording);
    if (whole.devices.size() != 1 || whole.largest.empty()) return;
    const analysis::Gap cut = whole.largest[(*random)() % whole.largest.size()];
    // Where a gap is cut short by what was not observed, the parts are more than two.
    if (whole.devices[0].ledger.not_observed_ns > 0) return;
    model::Slice before = records_of(recording), after = before;
    const auto is_after = [&](const auto& op) { return op.start_ns >= cut.end_ns; };
    before.activities.erase(
        std::remove_if(before.activities.begin(), before.activities.end(), is_after),
        before.activities.end());
    after.activities.erase(
        std::remove_if(after.activities.begin(), after.activities.end(), std::not_fn(is_after)),
        after.activities.end());
    const analysis::Idleness first = analyzed(Changed(recording, std::move(before)));
    const analysis::Idleness second = analyzed(Changed(recording, std::move(after)));
    REQUIRE(first.devices.size() == 1);
    REQUIRE(second.devices.size() == 1);
    const analysis::Ledger &a = first.devices[0].ledger, &b = second.devices[0].ledger,
                           &all = whole.devices[0].ledger;
    REQUIRE(a.compute_ns + b.compute_ns == all.compute_ns);
    REQUIRE(a.exposed_copy_ns + b.exposed_copy_ns == all.exposed_copy_ns);
    REQUIRE(a.exposed_communication_ns + b.exposed_communication_ns ==
            all.exposed_communication_ns);
    REQUIRE(a.idle.total_ns() + cut.length_ns() + b.idle.total_ns() == all.idle.total_ns());
    REQUIRE(a.wall_ns() + cut.length_ns() + b.wall_ns() == all.wall_ns());
  });
}
