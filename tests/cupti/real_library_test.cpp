// SPDX-License-Identifier: Apache-2.0
//
// One real libcupti, without a device: what our tables and our decoder say about it holds. The
// library is the one that CUPTI_UNDER_TEST names, else the installed toolkit's; wheels_test.py runs
// this once for each release that can be fetched. Exit 77: there is none.
#define CATCH_CONFIG_RUNNER
#include <dlfcn.h>
#include <time.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "libgpuidle/cupti/activity_decoder.h"
#include "libgpuidle/cupti/cupti_api.h"
#include "libgpuidle/cupti/cupti_choice.h"
#include "libgpuidle/cupti/cupti_layouts.h"
#include "libgpuidle/model/cuda_api.h"

namespace gpuidle::cupti {
namespace {

CuptiApi g_api;

// Bytes of a record by release, measured; a release without a row of its own has at least what the
// newest older one has, since records only grow. The library's SONAME tells apart what shares a
// number.
struct StrideRow {
  std::uint32_t version;
  int soname_major;
  std::size_t kernel, copy, set, peer_copy, graph, overhead, device;
};
constexpr StrideRow kStrides[] = {
    {17, 11, 176, 88, 88, 96, 48, 40, 176},     {18, 11, 200, 88, 88, 96, 48, 40, 176},
    {18, 12, 208, 88, 88, 96, 48, 40, 176},     {20, 12, 208, 88, 88, 96, 48, 40, 184},
    {21, 12, 208, 88, 88, 96, 56, 48, 184},     {22, 12, 208, 88, 88, 96, 56, 56, 184},
    {24, 12, 208, 88, 88, 96, 56, 56, 184},     {26, 12, 208, 96, 88, 96, 56, 56, 184},
    {28, 12, 208, 96, 88, 96, 56, 56, 184},     {130000, 13, 216, 96, 88, 96, 56, 56, 184},
    {130001, 13, 216, 96, 88, 96, 56, 56, 184}, {130101, 13, 224, 96, 88, 96, 56, 56, 184},
};

int soname_major() {
  const std::size_t at = g_api.path.rfind("libcupti.so.");
  return at == std::string::npos ? 0 : std::atoi(g_api.path.c_str() + at + 12);
}

// The activities of one buffer, written by the layouts that we believe in, at this library's
// strides.
class Buffer {
 public:
  explicit Buffer(const ActivityDecoder& decoder) : decoder_(decoder) {}

  template <typename Prefix>
  void add(CUpti_ActivityKind kind, Prefix record) {
    const std::size_t stride = decoder_.stride(kind);
    record.kind = kind;
    const std::size_t at = words_.size() * 8;
    words_.resize(words_.size() + stride / 8);
    std::memcpy(data() + at, &record, sizeof(record) < stride ? sizeof(record) : stride);
  }
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(words_.data()); }
  std::size_t bytes() const { return words_.size() * 8; }

 private:
  const ActivityDecoder& decoder_;
  std::vector<std::uint64_t> words_;
};

ActivityDecoder prepared_decoder() {
  ActivityDecoder decoder;
  const base::Status status = decoder.prepare(g_api);
  INFO(status.message());
  REQUIRE(status.ok());
  return decoder;
}

std::int64_t realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

KernelPrefix some_kernel(const char* name, std::uint64_t start, std::uint32_t correlation) {
  KernelPrefix kernel{};
  kernel.start = start;
  kernel.end = start + 50;
  kernel.device = 2;
  kernel.context = 3;
  kernel.stream = 7;
  kernel.grid[0] = 64;
  kernel.block[0] = 128;
  kernel.registers_per_thread = 42;
  kernel.correlation = correlation;
  kernel.name = name;
  kernel.graph = 9;
  return kernel;
}

}  // namespace

TEST_CASE("the library's record sizes are those of the table", "[cupti]") {
  const ActivityDecoder decoder = prepared_decoder();
  const StrideRow* row = nullptr;
  for (const StrideRow& candidate : kStrides) {
    if (candidate.version <= g_api.version && candidate.soname_major <= soname_major()) {
      row = &candidate;
    }
  }
  REQUIRE(row != nullptr);
  const struct {
    CUpti_ActivityKind kind;
    std::size_t bytes;
  } expected[] = {{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, row->kernel},
                  {CUPTI_ACTIVITY_KIND_MEMCPY, row->copy},
                  {CUPTI_ACTIVITY_KIND_MEMSET, row->set},
                  {CUPTI_ACTIVITY_KIND_MEMCPY2, row->peer_copy},
                  {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, row->graph},
                  {CUPTI_ACTIVITY_KIND_OVERHEAD, row->overhead},
                  {CUPTI_ACTIVITY_KIND_DEVICE, row->device}};
  for (const auto& record : expected) {
    INFO("version " << g_api.version << ", kind " << record.kind);
    std::printf("stride version %u kind %d bytes %zu\n", g_api.version,
                static_cast<int>(record.kind), decoder.stride(record.kind));
    if (row->version == g_api.version) {
      CHECK(decoder.stride(record.kind) == record.bytes);
    } else {
      CHECK(decoder.stride(record.kind) >= record.bytes);
    }
  }
}

TEST_CASE("a buffer that the library walks is decoded field by field", "[cupti]") {
  ActivityDecoder decoder = prepared_decoder();
  Buffer buffer(decoder);
  buffer.add(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, some_kernel("first", 1000, 11));
  MemcpyPrefix copy{};
  copy.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.flags = 1;
  copy.bytes = 4096;
  copy.start = 2000;
  copy.end = 2100;
  copy.device = 2;
  copy.correlation = 12;
  buffer.add(CUPTI_ACTIVITY_KIND_MEMCPY, copy);
  MemsetPrefix set{};
  set.bytes = 512;
  set.start = 3000;
  set.end = 3010;
  set.correlation = 13;
  set.memory_kind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  buffer.add(CUPTI_ACTIVITY_KIND_MEMSET, set);
  PeerCopyPrefix peer{};
  peer.bytes = 77;
  peer.start = 3500;
  peer.end = 3600;
  peer.correlation = 14;
  buffer.add(CUPTI_ACTIVITY_KIND_MEMCPY2, peer);
  OverheadPrefix overhead{};
  overhead.overhead_kind = 1u << 16;
  overhead.start = 100;
  overhead.end = 200;
  buffer.add(CUPTI_ACTIVITY_KIND_OVERHEAD, overhead);
  buffer.add(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, some_kernel("last", 4000, 15));

  model::Tables tables;
  DecodedRecords records;
  model::Losses losses;
  decoder.decode(buffer.data(), buffer.bytes(), tables, records, losses);
  CHECK(losses.total() == 0);
  CHECK(records.overheads.size() == 1);
  REQUIRE(records.activities.size() == 5);
  const model::DeviceActivity& first = records.activities[0];
  CHECK(first.start_ns == 1000);
  CHECK(first.end_ns == 1050);
  CHECK(first.device == 2);
  CHECK(first.context == 3);
  CHECK(first.stream == 7);
  CHECK(first.correlation == 11);
  const model::Kernel& kernel = tables.kernels()[first.kernel];
  CHECK(tables.string(kernel.name) == "first");
  CHECK(kernel.grid[0] == 64);
  CHECK(kernel.block[0] == 128);
  CHECK(kernel.registers_per_thread == 42);
  CHECK(records.activities[1].copy == model::CopyKind::device_to_host);
  CHECK(records.activities[1].bytes == 4096);
  CHECK(records.activities[1].is_async);
  CHECK(records.activities[2].bytes == 512);
  CHECK(records.activities[3].copy == model::CopyKind::peer);
  CHECK(records.activities[3].correlation == 14);
  CHECK(records.activities[4].correlation == 15);
}

TEST_CASE("the calls that the recorder lives on have callback ids", "[cupti]") {
  bool has_launch = false;
  bool has_copy = false;
  for (CUpti_CallbackId id = 1; id < 2048; ++id) {
    for (const CUpti_CallbackDomain domain :
         {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
      const char* name = nullptr;
      if (g_api.get_callback_name(domain, id, &name) != CUPTI_SUCCESS || name == nullptr) continue;
      const std::uint16_t row = model::cuda_api_row(model::without_variant(name));
      if (row == model::kNoCudaApi) continue;
      has_launch = has_launch || model::kCudaApis[row].role == model::ApiRole::launch;
      has_copy = has_copy || model::kCudaApis[row].role == model::ApiRole::copy;
    }
  }
  CHECK(has_launch);
  CHECK(has_copy);
}

TEST_CASE("its clock is CLOCK_REALTIME", "[cupti]") {
  std::uint64_t now_ns = 0;
  if (g_api.get_timestamp(&now_ns) != CUPTI_SUCCESS) {
    WARN("this release has no clock without a driver");
    return;
  }
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t before_ns = realtime_ns();
    REQUIRE(g_api.get_timestamp(&now_ns) == CUPTI_SUCCESS);
    const std::int64_t after_ns = realtime_ns();
    REQUIRE(static_cast<std::int64_t>(now_ns) >= before_ns);
    REQUIRE(static_cast<std::int64_t>(now_ns) <= after_ns);
  }
}

TEST_CASE("its version is told from the number, and judged", "[cupti]") {
  std::printf("version %u is CUPTI %s, %s\n", g_api.version,
              cupti_version_text(g_api.version).c_str(), g_api.path.c_str());
  CHECK(cupti_major(g_api.version) >= 11);
  CHECK(why_not_cupti(g_api.version, cupti_major(g_api.version)).empty());
  CHECK_FALSE(why_not_cupti(g_api.version, cupti_major(g_api.version) - 1).empty());
  CHECK(cupti_major(g_api.version) <= soname_major());
}

}  // namespace gpuidle::cupti

int main(int argc, char** argv) {
  using namespace gpuidle;
  const char* path = std::getenv("CUPTI_UNDER_TEST");
  const base::Status status = cupti::load(path == nullptr ? "" : path, 0, &cupti::g_api);
  if (status.code() == base::StatusCode::unsupported_version) {
    // Refusing is what is asked for, of the releases that the table names.
    std::printf("version %u refused: %s\n", cupti::g_api.version, status.message().c_str());
    return cupti::why_not_cupti(cupti::g_api.version, 0).empty() ? 1 : 0;
  }
  if (!status.ok()) {
    std::printf("version not known, skipped: %s\n", status.message().c_str());
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
