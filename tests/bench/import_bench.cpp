// SPDX-License-Identifier: Apache-2.0
//
// How fast foreign recordings are read: megabytes (10^6) of JSON text per second of one core, with
// and without gunzip, on the largest files of the shared table; skipped where that is not there.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "libgpuidle/import/gzip.h"
#include "libgpuidle/import/kineto.h"
#include "libgpuidle/import/open_recording.h"
#include "tests/unit/import_sources.h"

namespace gpuidle {
namespace {

constexpr std::size_t kFiles = 6;

import::PaddedText read_text(const std::string& path){auto file = import::read_file(path);
if (!file.ok()) return {};
if (!import::is_gzip(file.value().view())) return file.take();
auto unpacked = import::gunzip(file.value().view(), path);
return unpacked.ok() ? unpacked.take() : import::PaddedText();
}  // namespace

void set_rate(benchmark::State& state, std::size_t text_bytes) {
  state.counters["text_MB"] = static_cast<double>(text_bytes) / 1e6;
  state.counters["text_MB/s"] = benchmark::Counter(static_cast<double>(text_bytes) / 1e6,
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

void open_file(benchmark::State& state, const std::string& path, std::size_t text_bytes) {
  for (auto _ : state) {
    auto recording = import::open_recording(path);
    if (!recording.ok()) state.SkipWithError(recording.status().message().c_str());
    benchmark::DoNotOptimize(recording);
  }
  set_rate(state, text_bytes);
}

// The text is copied outside of the measured time, because the reader takes its input over.
void read_json(benchmark::State& state, const std::string& path) {
  const import::PaddedText text = read_text(path);
  for (auto _ : state) {
    state.PauseTiming();
    import::PaddedText copy = import::PaddedText::copy_of(text.view());
    state.ResumeTiming();
    auto recording = import::read_kineto(std::move(copy), path);
    if (!recording.ok()) state.SkipWithError(recording.status().message().c_str());
    benchmark::DoNotOptimize(recording);
  }
  set_rate(state, text.size());
}

void unpack(benchmark::State& state, const std::string& path, std::size_t text_bytes) {
  const auto file = import::read_file(path);
  for (auto _ : state) {
    auto unpacked = import::gunzip(file.value().view(), path);
    if (!unpacked.ok()) state.SkipWithError(unpacked.status().message().c_str());
    benchmark::DoNotOptimize(unpacked);
  }
  set_rate(state, text_bytes);
}

int run(int argc, char** argv) {
  const std::string folder = test::sources_folder();
  std::vector<std::pair<std::size_t, std::string>> files;  // bytes of text, path below the folder
  for (const auto& row : test::read_sources(folder)) {
    if (row.is_json() && !row.is_wrong_format()) {
      files.emplace_back(read_text(folder + "/" + row.file).size(), row.file);
    }
  }
  if (files.empty()) {
    std::printf("skipped: no table of recordings at %s/SOURCES.md\n", folder.c_str());
    return 77;
  }
  std::sort(files.rbegin(), files.rend());
  files.resize(std::min(files.size(), kFiles));
  for (const auto& [text_bytes, file] : files) {
    const std::string path = folder + "/" + file;
    benchmark::RegisterBenchmark(("open/" + file).c_str(), open_file, path, text_bytes);
    benchmark::RegisterBenchmark(("json/" + file).c_str(), read_json, path);
    if (file.find(".gz") != std::string::npos) {
      benchmark::RegisterBenchmark(("gunzip/" + file).c_str(), unpack, path, text_bytes);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace gpuidle
}  // namespace gpuidle

int main(int argc, char** argv) { return gpuidle::run(argc, argv); }
