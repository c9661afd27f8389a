// SPDX-License-Identifier: Apache-2.0
//
// Several recordings as one job: who waits for whom, whose fault it is, and when nothing is said.
#include "libgpuidle/analysis/ranks.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "libgpuidle/analysis/collectives.h"
#include "tests/unit/ledger_recording.h"

namespace gpuidle::tests {
namespace {

using analysis::compare_ranks;

constexpr const char* kAllReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

// A rank whose clock is `behind_ns` behind that of the first one.
class RankRecording : public LedgerRecording {
 public:
  explicit RankRecording(std::int64_t behind_ns = 0) : behind_ns_(behind_ns) {
    mutable_info().realtime_offset_ns = 0;
    mutable_info().recording_start_ns = -behind_ns;
  }
  void begins(std::int64_t at_ns) { mutable_info().recording_start_ns = at_ns - behind_ns_; }
  void busy(std::int64_t start_ns, std::int64_t end_ns, const char* name = "gemm") {
    const std::int64_t at_ns = start_ns - behind_ns_;
    kernel(at_ns, end_ns - behind_ns_, launch(at_ns - us(10), at_ns), name);
  }
  void collective(std::int64_t start_ns, std::int64_t end_ns) {
    busy(start_ns, end_ns, kAllReduce);
  }

  analysis::RankTrack track(std::int32_t rank) {
    seal();
    analysis::CollectiveMeter meter(*this);
    analysis::Options options;
    options.gaps = &meter;
    options.also = {&meter};
    analysis::Idleness found;
    REQUIRE(analysis::analyze(*this, options, &found).ok());
    meter.finish();
    analysis::RankTrack result;
    result.rank = rank;
    result.realtime_offset_ns = info().realtime_offset_ns;
    result.recording_start_ns = info().recording_start_ns;
    for (const analysis::Collective& one : meter.collectives) {
      result.names.emplace_back(tables().string(one.name));
    }
    result.collectives = meter.collectives;
    result.gaps = meter.gaps;
    return result;
  }

 private:
  std::int64_t behind_ns_;
};

// Three short collectives in step, so that clocks can be aligned.
void meet(RankRecording* rank, std::int64_t from_ns) {
  for (int i = 0; i < 3; ++i) {
    rank->collective(from_ns + i * ms(1), from_ns + i * ms(1) + us(50));
  }
}

void require_sums(const analysis::JobRanks& job) {
  std::int64_t waited_ns = 0, caused_ns = 0;
  for (const analysis::RankWaits& waits : job.waits) {
    REQUIRE(waits.waited_ns + waits.artefact_ns + waits.transfer_ns + waits.unmatched_ns ==
            waits.exposed_ns);
    waited_ns += waits.waited_ns;
    caused_ns += waits.caused_ns;
  }
  REQUIRE(waited_ns == caused_ns);
}

TEST_CASE(
    "a rank that waits 18 of 20 ms in a collective waits for the rank whose loader was slow") {
  RankRecording first, second(ms(300));
  meet(&first, ms(1));
  meet(&second, ms(1));
  first.busy(ms(5), ms(10));
  first.collective(ms(10), ms(30));
  second.busy(ms(5), ms(12));
  const auto loader = second.stack({{"__getitem__", "ds.py", 7}, {"train", "train.py", 3}});
  // The device has nothing to do from 12 to 26 ms.
  second.kernel(ms(26 - 300), ms(28 - 300),
                second.launch(ms(26 - 300) - us(10), ms(26 - 300), loader), "gemm");
  second.collective(ms(28), ms(30));
  const analysis::JobRanks job = compare_ranks({first.track(0), second.track(1)});
  REQUIRE(job.refusal.empty());
  require_sums(job);
  CHECK(job.matched_count == 4);
  CHECK(job.clocks[1].offset_ns == ms(300));
  CHECK(job.clocks[1].bound_ns == 0);
  CHECK(job.clocks[0].skew_ns == 0);
  CHECK(job.clocks[1].skew_ns == -ms(300));
  CHECK(job.waits[0].waited_ns == ms(18));
  CHECK(job.waits[0].transfer_ns == ms(2) + 3 * us(50));
  CHECK(job.waits[0].artefact_ns == 0);
  CHECK(job.waits[1].waited_ns == 0);
  CHECK(job.waits[1].caused_ns == ms(18));
  CHECK(job.waits[1].late_count == 1);
  REQUIRE(job.waits[1].reasons.size() == 1);
  CHECK(job.waits[1].reasons[0].stack == loader);
  CHECK(job.waits[1].reasons[0].total_ns == ms(14));
}

TEST_CASE("a wait beside which the waiting rank computes costs nothing") {
  RankRecording first, second;
  meet(&first, ms(1));
  meet(&second, ms(1));
  first.collective(ms(10), ms(30));
  first.stream = 2;
  first.busy(ms(10), ms(25));
  second.collective(ms(28), ms(30));
  const analysis::JobRanks job = compare_ranks({first.track(0), second.track(1)});
  require_sums(job);
  CHECK(job.waits[0].exposed_ns == ms(5) + 3 * us(50));
  CHECK(job.waits[0].waited_ns == ms(3));
}

TEST_CASE("eight ranks enter a collective 17.46 s apart: one that was truly late is named") {
  std::vector<analysis::RankTrack> tracks;
  for (std::int32_t rank = 0; rank < 8; ++rank) {
    RankRecording recording;
    meet(&recording, ms(1));
    const std::int64_t start_ns = rank == 5 ? ms(17'470) : ms(10);
    recording.busy(start_ns - ms(1), start_ns);
    recording.collective(start_ns, ms(17'471));
    tracks.push_back(recording.track(rank));
  }
  const analysis::JobRanks job = compare_ranks(tracks);
  REQUIRE(job.refusal.empty());
  require_sums(job);
  CHECK(job.waits[5].caused_ns == 7 * ms(17'460));
  CHECK(job.waits[5].waited_ns == 0);
  for (const std::size_t rank : {0U, 1U, 2U, 3U, 4U, 6U, 7U}) {
    CHECK(job.waits[rank].waited_ns == ms(17'460));
    CHECK(job.waits[rank].caused_ns == 0);
  }
}

TEST_CASE("eight ranks whose recordings began 17.46 s apart: nobody is blamed") {
  std::vector<analysis::RankTrack> tracks;
  for (std::int32_t rank = 0; rank < 8; ++rank) {
    RankRecording recording;
    const std::int64_t begin_ns = rank == 5 ? ms(17'460) : 0;
    recording.begins(begin_ns);
    recording.busy(begin_ns + ms(8), begin_ns + ms(9));
    recording.collective(begin_ns + ms(10), ms(17'471));
    meet(&recording, ms(17'480));
    tracks.push_back(recording.track(rank));
  }
  const analysis::JobRanks job = compare_ranks(tracks);
  REQUIRE(job.refusal.empty());
  require_sums(job);
  for (const analysis::RankWaits& waits : job.waits) {
    CHECK(waits.caused_ns == 0);
    CHECK(waits.waited_ns == 0);
  }
  CHECK(job.waits[0].artefact_ns == ms(17'460));
  CHECK(job.waits[5].artefact_ns == 0);
}

TEST_CASE("recordings that begin some collectives later are matched by their wall clocks") {
  RankRecording first, second;
  meet(&first, ms(1));
  meet(&first, ms(5));
  meet(&second, ms(5));
  second.begins(ms(4.5));
  const analysis::JobRanks job = compare_ranks({first.track(0), second.track(1)});
  REQUIRE(job.refusal.empty());
  CHECK(job.matched_count == 3);
  CHECK(job.waits[0].unmatched_ns == 3 * us(50));
}

TEST_CASE("wall clocks are compared only where they are recorded, however the own clocks differ") {
  RankRecording first, second(ms(300));
  meet(&first, ms(1));
  meet(&second, ms(1));
  analysis::RankTrack late = second.track(1);
  late.realtime_offset_ns = ms(300) + us(7);
  CHECK(compare_ranks({first.track(0), late}).clocks[1].skew_ns == us(7));
  late.realtime_offset_ns.reset();
  const auto job = compare_ranks({first.track(0), late});
  REQUIRE(job.refusal.empty());
  CHECK_FALSE(job.clocks[1].skew_ns.has_value());
}

TEST_CASE("ranks are not compared where nothing proves that their collectives belong together") {
  RankRecording first, second;
  meet(&first, ms(1));
  SECTION("no communication at all") {
    second.busy(ms(1), ms(2));
    CHECK(compare_ranks({first.track(0), second.track(1)}).refusal ==
          "rank 1 has no communication kernels");
  }
  SECTION("too few collectives") {
    second.collective(ms(1), ms(1) + us(50));
    const auto job = compare_ranks({first.track(0), second.track(1)});
    CHECK(job.refusal.find("only 1 collectives of rank 1") != std::string::npos);
    CHECK(job.clocks.empty());
    CHECK(job.waits[0].waited_ns == 0);
    CHECK(job.waits[0].unmatched_ns == job.waits[0].exposed_ns);
  }
  SECTION("different counts and clocks that disagree") {
    RankRecording skewed(ms(100));
    meet(&skewed, ms(1));
    meet(&skewed, ms(5));
    CHECK_FALSE(compare_ranks({first.track(0), skewed.track(1)}).refusal.empty());
  }
  SECTION("ends that contradict each other") {
    second.collective(ms(1), ms(1) + us(50));
    second.collective(ms(4), ms(4) + us(50));
    second.collective(ms(9), ms(9) + us(50));
    CHECK(
        compare_ranks({first.track(0), second.track(1)}).refusal.find("may not belong together") !=
        std::string::npos);
  }
}

}  // namespace
}  // namespace gpuidle::tests
