// SPDX-License-Identifier: Apache-2.0
//
// The text report as a person sees it: one whole page, and the rules that hold for every page.
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <sstream>

#include "libgpuidle/report/format.h"
#include "libgpuidle/report/json_report.h"
#include "libgpuidle/report/text_report.h"
#include "tests/unit/ledger_recording.h"

using namespace gpuidle;
using model::ApiRole;
using tests::LedgerRecording;
using tests::ms;
using tests::us;

namespace {

// A loop that reads a scalar back every step; the read-back's line is the cause.
void fill_scalar_read(LedgerRecording* recording, int steps) {
  const auto read = recording->stack({{"cudaStreamSynchronize", "", 0},
                                      {"item", "/usr/lib/python3/dist-packages/t.py", 9},
                                      {"log_loss", "train.py", 42},
                                      {"main", "train.py", 7}});
  const auto launch = recording->stack({{"step", "train.py", 40}, {"main", "train.py", 7}});
  for (int step = 0; step < steps; ++step) {
    const double h = 3.04 * step;
    const auto kernel = recording->launch(ms(h + 0.02), ms(h + 0.03), launch);
    const auto copy = recording->copy_call(ms(h + 0.03), ms(h + 0.04), read);
    recording->call("cudaStreamSynchronize", ApiRole::sync_blocking, ms(h + 0.04), ms(h + 2.06),
                    read);
    recording->kernel(ms(h + 0.04), ms(h + 2.04), kernel);
    recording->copy(ms(h + 2.04), ms(h + 2.05), copy, model::CopyKind::device_to_host, 4);
  }
  model::RecordingInfo& info = recording->mutable_info();
  info.producer = "libgpuidle 0.1.0";
  info.source_reason = "this driver allows one subscriber";
  info.command = {"python", "train.py"};
  info.pid = 4711;
  info.end = model::End::clean;
  info.process_start_ns = ms(-2000);
  info.recording_start_ns = ms(-10);
  info.recording_end_ns = ms(3.04 * steps + 4);
  model::Device device;
  device.name = recording->mutable_tables().intern("Simulated GPU");
  recording->mutable_tables().set_device(device);
}

struct Shown {
  std::string text, gaps, json, gaps_json;
};

Shown show(LedgerRecording* recording, std::size_t top = 5) {
  const analysis::Idleness found = recording->analyze();
  report::Places places(recording->tables());
  const auto origins = report::joined_by_line(found.groups, places);
  const analysis::Findings findings = analysis::find_causes(*recording, found, {});
  const base::Status read_status;
  const report::ReportInput input{*recording, found, findings, origins, read_status, top};
  const report::Style plain(false);
  return {report::text_report(input, places, plain), report::text_gaps(input, places, plain),
          report::json_report(input, places), report::json_gaps(input, places)};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The text with each run of blanks and line ends as one blank.
std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string joined;
  for (std::string word; words >> word;) joined += word + " ";
  return joined;
}

void check_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(report::columns_of(line) <= report::kColumns);
  }
}

constexpr const char* kScalarReadReport = R"(
program    python train.py, process 4711
source     CUPTI, as its sole subscriber (libgpuidle 0.1.0)
reason     this driver allows one subscriber
ended      the recording was closed in order
lost       nothing that is known of

Verdict
  Device 0 (Simulated GPU) was idle for 60.77 ms of 181.4 ms (33.5 %). For
  98.1 % of that, nothing was queued: the host had not called for more work.
  First: sync.scalar-read at log_loss (train.py:42), worth at most 60.77 ms.

Where the time went
device 0 (Simulated GPU), 181.4 ms from its first to its last operation:
  compute                    120.0 ms   66.2 %  kernels, but communication
  exposed copy and set       600.0 us    0.3 %  copies or sets, no kernel
  idle                       60.77 ms   33.5 %  none of these, of which:
    H nothing queued         59.59 ms   32.9 %  host had not called yet
    A being queued           590.0 us    0.3 %  host inside the call
    D queued, not started    590.0 us    0.3 %  device had not begun
  wall                       181.4 ms  100.0 %  the sum of the above
  utilisation of the observed time: 66.2 % with any kernel (as nvidia-smi
  counts), 66.5 % with any operation, 66.2 % with a kernel that computes
  60 kernels (0 of them communication), 60 copies, 0 sets
  before it, since the process began: 2.000 s; after it, until the recording
  ended: 4.990 ms

Findings (what is lost to what, and where)
  1. sync.scalar-read at log_loss (train.py:42)
       by main (train.py:7)
     costs 60.77 ms, 33.5 % of the window; removing it saves at most 60.77 ms
     the host waits to read a single value back and queues nothing meanwhile:
     59 gaps, longest 1.030 ms at +12.05 ms
     fix: Keep the value of train.py:42 on the device and read it every N steps,
     or read the previous step's value.
     evidence: grade B: what is recorded at both edges of the gaps agrees

Where the idle time comes from (time, share of all idle time)
  1. log_loss (train.py:42)                                    60.77 ms  100.0 %
     59 gaps, H 98.1 %, A 1.0 %, D 1.0 %; the host was waiting in
     cudaStreamSynchronize; next came cudaLaunchKernel

Gaps by length
  device 0 (Simulated GPU)
    large, 1 to 500 ms                 59 gaps   60.77 ms  100.0 % of its idle
)";

}  // namespace

TEST_CASE("a read-back in every step gives this page", "[report][unit]") {
  LedgerRecording recording;
  fill_scalar_read(&recording, 60);
  CHECK("\n" + show(&recording).text == kScalarReadReport);
}

TEST_CASE("no line is wider than 80 columns whatever the names", "[report][unit]") {
  LedgerRecording recording;
  fill_scalar_read(&recording, 3);
  const auto deep = recording.stack(
      {{std::string(300, 'f'), std::string(90, 'd') + "/" + std::string(200, 'p') + ".py", 123456},
       {"operator()<std::vector<std::pair<int, std::basic_string<char>>>>", "", 0},
       {"\x1b[31mred\n", "\xff\xfe.py", 1}});
  recording.kernel(ms(20), ms(21), recording.launch(ms(15), ms(16), deep));
  recording.mutable_info().source_reason = std::string(30, 'x') + " " + std::string(40, 'y');
  const Shown shown = show(&recording);
  check_columns(shown.text);
  check_columns(shown.gaps);
  CHECK_FALSE(contains(shown.text, "\x1b"));
  CHECK(contains(unwrapped(shown.text), "Too short to judge: 4 kernels"));
}

TEST_CASE("losses stand before the first number they could change", "[report][unit]") {
  LedgerRecording recording;
  fill_scalar_read(&recording, 60);
  model::RecordingInfo& info = recording.mutable_info();
  info.losses.count[static_cast<std::size_t>(model::LossReason::cupti_dropped)] = 1234;
  info.end = model::End::abrupt;
  const std::string text = show(&recording).text;
  const std::size_t loss = text.find("1,234 device records dropped by CUPTI");
  REQUIRE(loss != std::string::npos);
  CHECK(loss < text.find("Verdict"));
  CHECK(text.find("abruptly") < text.find("Verdict"));
}

TEST_CASE("launches without device records are no idleness", "[report][unit]") {
  LedgerRecording recording;
  for (int i = 0; i < 10; ++i) recording.launch(us(i * 10), us(i * 10 + 5));
  const Shown shown = show(&recording);
  CHECK(contains(unwrapped(shown.text), "No GPU records: the program made 10 calls"));
  CHECK_FALSE(contains(shown.text, "%"));
}

TEST_CASE("without a watched device only what is proven is claimed", "[report][unit]") {
  LedgerRecording recording;
  recording.mutable_info().source = model::Source::interposition;
  recording.mutable_tables().set_device({});
  recording.launch(0, us(10));
  recording.call("cudaDeviceSynchronize", ApiRole::sync_blocking, us(10), ms(1));
  recording.launch(ms(4), ms(4.1));
  const std::string text = show(&recording).text;
  CHECK(contains(text, "host calls only: the device itself was not watched"));
  CHECK(contains(unwrapped(text), "at least 3.000 ms (73.2 %) are proven idle"));
  CHECK_FALSE(contains(text, "utilisation"));
}

TEST_CASE("stacks that meet in one line of the program count as one place", "[report][unit]") {
  LedgerRecording recording;
  const auto one = recording.stack({{"load", "data.py", 5}, {"train", "a.py", 1}});
  const auto other = recording.stack({{"load", "data.py", 5}, {"evaluate", "b.py", 2}});
  for (int i = 0; i < 10; ++i) {
    const double h = 10.0 * i;
    recording.kernel(ms(h + 1), ms(h + 2),
                     recording.launch(ms(h), ms(h + 0.5), i % 2 ? one : other));
  }
  const analysis::Idleness found = recording.analyze();
  CHECK(found.groups.size() == 2);
  report::Places places(recording.tables());
  const auto origins = report::joined_by_line(found.groups, places);
  REQUIRE(origins.size() == 1);
  CHECK(origins[0].count == 9);
  CHECK(origins[0].total_ns == found.idle_ns());
}

TEST_CASE("the launch stub that bears a kernel's name is not the user's line", "[report][unit]") {
  LedgerRecording recording;
  const auto stack = recording.stack(
      {{"cudaLaunchKernel", "", 0}, {"saxpy", "kernels.cu", 3}, {"train_step", "train.cu", 20}});
  recording.kernel(ms(1), ms(2), recording.launch(ms(0), ms(0.5)), "_Z5saxpyPfi");
  recording.kernel(ms(4), ms(5), recording.launch(ms(3), ms(3.5), stack), "_Z5saxpyPfi");
  CHECK(contains(show(&recording).text, "  1. train_step (train.cu:20)"));
}

TEST_CASE("the JSON documents carry the figures of the text", "[report][unit]") {
  LedgerRecording recording;
  fill_scalar_read(&recording, 60);
  const Shown shown = show(&recording, 2);
  simdjson::dom::parser parser;
  CHECK(shown.json.rfind("{\n\"schema\":\"gpuidle.report\",\n\"version\":1,", 0) == 0);
  const auto report = parser.parse(shown.json);
  const auto device = report["devices"].at(0);
  CHECK(std::int64_t(device["idle_ns"]) == 59 * ms(1.03));
  CHECK(std::int64_t(device["compute_ns"]) == 60 * ms(2));
  CHECK(std::int64_t(device["head_ns"]) == ms(2000.04));
  CHECK(std::uint64_t(report["losses"]["total"]) == 0);
  const auto origin = report["idle_origins"].at(0);
  CHECK(std::string_view(origin["call"]) == "cudaStreamSynchronize");
  CHECK(std::string_view(origin["opener"]) == "blocked_in");
  const auto frame = origin["stack"].at(std::size_t(std::uint64_t(origin["user_frame_index"])));
  CHECK(std::string_view(frame["function"]) == "log_loss");
  simdjson::dom::parser gaps_parser;
  const auto gaps = gaps_parser.parse(shown.gaps_json);
  CHECK(gaps["gaps"].get_array().size() == 2);
  CHECK(std::int64_t(gaps["gaps"].at(0)["length_ns"]) == ms(1.03));
}

TEST_CASE("numbers have four digits, a unit, and no false zeros", "[report][unit]") {
  CHECK(report::format_duration(0) == "0 ns");
  CHECK(report::format_duration(999) == "999 ns");
  CHECK(report::format_duration(1000) == "1.000 us");
  CHECK(report::format_duration(999'999) == "1.000 ms");
  CHECK(report::format_duration(12'345'678) == "12.35 ms");
  CHECK(report::format_duration(3'600'000'000'000) == "3600.0 s");
  CHECK(report::format_duration(-1500) == "-1.500 us");
  CHECK(report::format_share(0, 10) == "0.0 %");
  CHECK(report::format_share(1, 100'000) == "<0.1 %");
  CHECK(report::format_share(99'999, 100'000) == ">99.9 %");
  CHECK(report::format_share(1, 0) == "-");
  CHECK(report::format_count(1234567) == "1,234,567");
  CHECK(report::count_of(1, "copy") == "1 copy");
  CHECK(report::count_of(2, "copy") == "2 copies");
  CHECK(report::elide("a\x1b[1m\xC2\x9B\xFFz", 20) == "a?[1m??z");
  CHECK(report::elide("abcdefghij", 7) == "ab...ij");
  CHECK(report::elide_front("a/long/path/file.py", 10) == "...file.py");
}
