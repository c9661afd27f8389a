// SPDX-License-Identifier: Apache-2.0
//
// Exports of hand-made recordings: rows, lanes, names and weights as viewers need them.
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "libgpuidle/report/export_chrome.h"
#include "libgpuidle/report/export_flame.h"
#include "libgpuidle/report/export_lanes.h"
#include "libgpuidle/report/export_timeline.h"
#include "libgpuidle/report/export_wire.h"
#include "tests/unit/ledger_recording.h"

namespace gpuidle::tests {
namespace {

class TextSink : public report::ExportSink {
 public:
  void write(std::string_view bytes) override { text += bytes; }
  std::string text;
};

// Keeps what it is told.
class KeptTimeline : public report::TimelineFormat {
 public:
  struct Kept {
    report::TimelineSlice slice;
    std::string row, name;
    std::vector<report::TimelineFact> facts;
  };
  void begin(const std::vector<report::TimelineFact>&) override {}
  void add_group(const report::TimelineGroup& group) override { groups.push_back(group); }
  void add_row(const report::TimelineRow& row) override { rows.push_back(row); }
  void add_name(std::string_view name) override { names.emplace_back(name); }
  void add_slice(const report::TimelineSlice& slice) override {
    Kept kept{slice, rows.at(slice.row - 1).name, names.at(slice.name), {}};
    if (slice.facts != nullptr) kept.facts = *slice.facts;
    slices.push_back(kept);
  }
  void end() override { is_ended = true; }

  std::vector<const Kept*> on_row(std::string_view row) const {
    std::vector<const Kept*> found;
    for (const Kept& kept : slices) {
      if (kept.row == row) found.push_back(&kept);
    }
    return found;
  }

  std::vector<report::TimelineGroup> groups;
  std::vector<report::TimelineRow> rows;
  std::vector<std::string> names;
  std::vector<Kept> slices;
  bool is_ended = false;
};

// One step: a wait in cudaStreamSynchronize opens a gap that cudaLaunchKernel closes.
void fill(LedgerRecording* recording) {
  const auto line =
      recording->stack({{"step; of\n\"x\"", "train.py", 42}, {"main", "train.py", 9}});
  recording->kernel(ms(1), ms(2), recording->launch(ms(0.5), ms(0.6)));
  recording->call("cudaStreamSynchronize", model::ApiRole::sync_blocking, ms(1), ms(2.1), line);
  recording->kernel(ms(5), ms(6), recording->launch(ms(4), ms(4.5)));
}

TEST_CASE(
    "slices that nest share a lane where nesting is allowed, all others get lanes of their own") {
  report::ExportLanes nesting(true), flat(false);
  REQUIRE(nesting.place(0, 100) == 0U);
  REQUIRE(nesting.place(10, 100) == 0U);
  REQUIRE(nesting.place(20, 101) == 1U);
  REQUIRE(nesting.place(100, 120) == 0U);
  REQUIRE(flat.place(0, 100) == 0U);
  REQUIRE(flat.place(10, 20) == 1U);
  REQUIRE(flat.place(20, 30) == 1U);
  REQUIRE(flat.place(100, 100) == 0U);
}

TEST_CASE("lanes and depth are bounded") {
  report::ExportLanes flat(false);
  for (std::size_t i = 0; i < report::ExportLanes::kMaxLanes; ++i) REQUIRE(flat.place(0, 10) == i);
  REQUIRE_FALSE(flat.place(0, 10).has_value());
  REQUIRE(flat.place(10, 11) == 0U);
  report::ExportLanes nesting(true);
  for (std::size_t i = 0; i < report::ExportLanes::kMaxDepth; ++i) {
    REQUIRE(nesting.place(0, 10) == 0U);
  }
  REQUIRE(nesting.place(0, 10) == 1U);
}

TEST_CASE("a gap is drawn on the device's own row with its parts inside") {
  LedgerRecording recording;
  fill(&recording);
  recording.seal();
  KeptTimeline kept;
  analysis::Idleness found;
  report::ExportCounts counts;
  REQUIRE(report::export_timeline(recording, &kept, &found, &counts).ok());
  REQUIRE(kept.is_ended);
  REQUIRE(counts.gaps == 1);
  REQUIRE(counts.activities == 2);
  REQUIRE(counts.calls == 3);
  REQUIRE(counts.left_out == 0);

  const auto gaps = kept.on_row("idle gaps");
  REQUIRE(gaps.size() == 4);
  CHECK(gaps[0]->name == "idle: sync.explicit: the host was waiting in cudaStreamSynchronize");
  CHECK(gaps[0]->slice.start_ns == ms(1.5));  // since the first call
  CHECK(gaps[0]->slice.end_ns == ms(4.5));
  CHECK(gaps[1]->name == "H nothing queued");
  CHECK(gaps[1]->slice.start_ns == ms(1.5));
  CHECK(gaps[1]->slice.end_ns == ms(3.5));
  CHECK(gaps[2]->name == "A being queued");
  CHECK(gaps[2]->slice.end_ns == ms(4));
  CHECK(gaps[3]->name == "D queued, not started");
  CHECK(gaps[3]->slice.end_ns == ms(4.5));
  const auto stream = kept.on_row("stream 1");
  REQUIRE(stream.size() == 2);
  CHECK(stream[0]->slice.start_ns == ms(0.5));
  CHECK(stream[0]->slice.correlation == 1);
}

TEST_CASE("operations that overlap in one stream are drawn side by side") {
  LedgerRecording recording;
  recording.kernel(0, 100, recording.launch(0, 1));
  recording.kernel(50, 80, recording.launch(2, 3));
  recording.seal();
  KeptTimeline kept;
  analysis::Idleness found;
  report::ExportCounts counts;
  REQUIRE(report::export_timeline(recording, &kept, &found, &counts).ok());
  CHECK(kept.on_row("stream 1").size() == 1);
  CHECK(kept.on_row("stream 1, lane 2").size() == 1);
}

TEST_CASE("folded stacks carry the idle nanoseconds, and no name breaks a line or a frame") {
  LedgerRecording recording;
  fill(&recording);
  const analysis::Idleness found = recording.analyze();
  report::Places places(recording.tables());
  TextSink sink;
  report::export_folded(found, places, &sink);
  const std::string stack =
      "device 0;sync.explicit;main (train.py:9);step: of?\"x\" (train.py:42);"
      "the host was waiting in cudaStreamSynchronize;";
  CHECK(sink.text == stack + "H nothing queued 2000000\n" + stack + "A being queued 500000\n" +
                         stack + "D queued, not started 500000\n");
}

TEST_CASE("a chrome timeline quotes names and keeps nanoseconds") {
  LedgerRecording recording;
  recording.kernel(1'000'001, 2'000'003, recording.launch(1'000'000, 1'000'001), "a\"b");
  recording.seal();
  TextSink sink;
  report::ChromeTimeline format(&sink);
  analysis::Idleness found;
  report::ExportCounts counts;
  REQUIRE(report::export_timeline(recording, &format, &found, &counts).ok());
  CHECK(sink.text.find("\"ts\":0.001,\"dur\":1000.002,\"cat\":\"kernel\",\"name\":\"a\\\"b\"") !=
        std::string::npos);
}

TEST_CASE("wire numbers and strings are those of Protocol Buffers") {
  std::string message;
  report::wire::append_number(1, 150, &message);
  CHECK(message == std::string("\x08\x96\x01", 3));
  message.clear();
  report::wire::append_bytes(2, "testing", &message);
  CHECK(message == "\x12\x07testing");
  message.clear();
  report::wire::append_number(4, std::numeric_limits<std::uint64_t>::max(), &message);
  CHECK(message.size() == 11);
  message.clear();
  report::wire::append_fixed(47, 1, &message);
  CHECK(message == std::string("\xF9\x02\x01\0\0\0\0\0\0\0", 10));
}

}  // namespace
}  // namespace gpuidle::tests
